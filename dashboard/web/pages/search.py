"""Search by name: a page, and the list under the search box."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flask import Blueprint, render_template, request, url_for

from ...model.kernel_line import KernelLine
from ...model.overview import OverviewRow
from ...store import queries
from ...store.queries.search import Hit, HitKind, SearchResult
from ..request_context import project_or_404, search_query, store
from .overview import overview_data
from .runner_status import standings_of

bp = Blueprint("search", __name__)

_LIMIT = 50
_LIVE_LIMIT = 5
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
class HitLink:
    hit: Hit
    url: str
    row: OverviewRow | None = None  # newest value and verdict of a series of ours
    lines: tuple[KernelLine, ...] = ()  # of a kernel, by machine


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSection:
    """Hits of one kind; `more` is the URL of all of them, if there is one."""

    heading: str
    links: tuple[HitLink, ...]
    total: int
    more: str | None


@bp.get("/<project:project>/search")
def show(project: str) -> str:
    """Search in one project."""
    return _page(project_or_404(project).name)


@bp.get("/search")
def everywhere() -> str:
    """Search in all projects."""
    return _page(None)


def _page(project: str | None) -> str:
    words = search_query()
    is_live = "live" in request.args
    result = queries.search(store(), words, project=project, limit=_LIVE_LIMIT if is_live else _LIMIT)
    return render_template(
        "search_results.html" if is_live else "search.html",
        words=words,
        project=project,
        sections=_sections(result, project, words, *(({}, {}) if is_live else (_rows(result), _lines(result)))),
        total=result.total,
        suggestion=result.suggestion,
        all_url=_search_url(project, words),
        suggestion_url=_search_url(project, result.suggestion or ""),
    )


def _rows(result: SearchResult) -> dict[str, OverviewRow]:
    """Newest values of the series that were found, by key."""
    projects = {hit.project for group in result.kinds if group.kind is HitKind.SERIES for hit in group.hits}
    return {entry.row.series.key: entry.row for project in projects for entry in standings_of(project)}


def _lines(result: SearchResult) -> dict[tuple[str, str], list[KernelLine]]:
    """Change and standing of the kernels that were found, by project and name."""
    projects = {hit.project for group in result.kinds if group.kind is HitKind.KERNEL for hit in group.hits}
    lines: dict[tuple[str, str], list[KernelLine]] = {}
    for project in sorted(projects):
        for line in overview_data(project).lines:
            lines.setdefault((project, line.name), []).append(line)
    return lines


def _sections(
    result: SearchResult,
    project: str | None,
    words: str,
    rows: Mapping[str, OverviewRow],
    lines: Mapping[tuple[str, str], Sequence[KernelLine]],
) -> tuple[HitSection, ...]:
    return tuple(
        HitSection(
            heading=HEADINGS[group.kind],
            links=tuple(
                HitLink(
                    hit=hit,
                    url=_hit_url(hit, words),
                    row=rows.get(hit.place),
                    lines=tuple(lines.get((hit.project, hit.place), ())) if group.kind is HitKind.KERNEL else (),
                )
                for hit in group.hits
            ),
            total=group.total,
            more=url_for("series.search", project=project, q=words)
            if project is not None and group.kind is HitKind.SERIES and group.total > len(group.hits)
            else None,
        )
        for group in result.kinds
    )


def _search_url(project: str | None, words: str) -> str:
    return url_for(".show", project=project, q=words) if project is not None else url_for(".everywhere", q=words)


def _hit_url(hit: Hit, words: str) -> str:
    match hit.kind:
        case HitKind.PROJECT:
            return url_for("overview.show", project=hit.place)
        case HitKind.KERNEL:
            of_workloads = " ".join(word for word in words.split() if word.lower() not in hit.place.lower())
            if of_workloads:
                return url_for("overview.show", project=hit.project, kernel=hit.place, q=of_workloads)
            return url_for("kernel.show", project=hit.project, name=hit.place)
        case HitKind.MODULE:
            return url_for("overview.show", project=hit.project, kernel=hit.place)
        case HitKind.WORKLOAD:  # with the kernel: names of workloads repeat
            return url_for("overview.show", project=hit.project, kernel=hit.details, q=hit.place)
        case HitKind.MACHINE:
            return url_for("overview.show", project=hit.project, machine=hit.place)
        case HitKind.COMMIT:
            return url_for("commits.show", project=hit.project, prefix=hit.place)
        case HitKind.SERIES:
            return url_for("series.show", project=hit.project, key=hit.place)
