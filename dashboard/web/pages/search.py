"""Search over everything that has a name: a page of its own, and the list that opens under the box while one types."""

from dataclasses import dataclass

from flask import Blueprint, render_template, request, url_for

from ...store import queries
from ...store.queries.search import Hit, HitKind, SearchResult
from ..request_context import project_or_404, store, words_asked

bp = Blueprint("search", __name__)

_OF_A_KIND = 50
_OF_A_KIND_LIVE = 5
HEADINGS = {
    HitKind.PROJECT: "Projects",
    HitKind.KERNEL: "Kernels",
    HitKind.MODULE: "Modules",
    HitKind.WORKLOAD: "Workloads",
    HitKind.MACHINE: "Machines",
    HitKind.COMMIT: "Commits",
    HitKind.SERIES: "Series",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A hit as a link."""

    hit: Hit
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The hits of a kind; `more` leads to all of them where only some are shown and there is such a page."""

    heading: str
    lines: tuple[Line, ...]
    total: int
    more: str | None


@bp.get("/<project:project>/search")
def show(project: str) -> str:
    """What is found in one project."""
    return _page(project_or_404(project).name)


@bp.get("/search")
def everywhere() -> str:
    """What is found in all projects."""
    return _page(None)


def _page(project: str | None) -> str:
    words = words_asked()
    is_live = "live" in request.args
    result = queries.search(store(), words, project=project, limit=_OF_A_KIND_LIVE if is_live else _OF_A_KIND)
    return render_template(
        "search_results.html" if is_live else "search.html",
        words=words,
        project=project,
        sections=_sections(result, project, words),
        total=result.total,
        suggestion=result.suggestion,
        whole=_address(project, words),
        suggested=_address(project, result.suggestion or ""),
    )


def _sections(result: SearchResult, project: str | None, words: str) -> tuple[Section, ...]:
    return tuple(
        Section(
            heading=HEADINGS[found.kind],
            lines=tuple(Line(hit=hit, address=_address_of(hit, words)) for hit in found.hits),
            total=found.total,
            more=url_for("series.search", project=project, q=words)
            if project is not None and found.kind is HitKind.SERIES and found.total > len(found.hits)
            else None,
        )
        for found in result.kinds
    )


def _address(project: str | None, words: str) -> str:
    return url_for(".show", project=project, q=words) if project is not None else url_for(".everywhere", q=words)


def _address_of(hit: Hit, words: str) -> str:
    match hit.kind:
        case HitKind.PROJECT:
            return url_for("overview.show", project=hit.place)
        case HitKind.KERNEL | HitKind.MODULE:
            others = " ".join(word for word in words.split() if word.lower() not in hit.place.lower())
            of_workloads = others if hit.kind is HitKind.KERNEL else ""
            return url_for("overview.show", project=hit.project, kernel=hit.place, q=of_workloads or None)
        case HitKind.WORKLOAD:  # other kernels have workloads of the same name
            return url_for("overview.show", project=hit.project, kernel=hit.details, q=hit.place)
        case HitKind.MACHINE:
            return url_for("overview.show", project=hit.project, machine=hit.place)
        case HitKind.COMMIT:
            return url_for("commits.show", project=hit.project, prefix=hit.place)
        case HitKind.SERIES:
            return url_for("series.show", project=hit.project, key=hit.place)
