"""Helpers of a request: store, project, pagination, URLs, and the frame of every page."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

from flask import Flask, abort, current_app, g, render_template, request, url_for
from werkzeug.exceptions import HTTPException

from ..model.series import Commit, Project, Series, workload_of
from ..store import Store, queries
from ..text.markdown import inert
from .error_messages import advice_of, heading_of, sentence_of

Entry = TypeVar("Entry")
Value = TypeVar("Value")
More = ParamSpec("More")
_MAX_QUERY_LENGTH = 200  # each word is compared with every name
_STATIC = Path(__file__).with_name("static")


def store() -> Store:
    application_store = current_app.extensions["store"]
    assert isinstance(application_store, Store)
    return application_store


def default_threshold() -> float:
    """Smallest relative change that matters in projects that state none."""
    return float(current_app.config["THRESHOLD"])


def cached(
    size: Callable[[Any], int] | None = None,
) -> Callable[[Callable[Concatenate[str, More], Value]], Callable[Concatenate[str, More], Value]]:
    """Decorator: cache the value of a function of a project, and of more arguments, while the project's data hold.

    As `store.engine.cached`, for functions of a request.
    """

    def decorate(function: Callable[Concatenate[str, More], Value]) -> Callable[Concatenate[str, More], Value]:
        @wraps(function)
        def read(project: str, /, *more: More.args, **named: More.kwargs) -> Value:
            key = (f"{function.__module__}.{function.__qualname__}", *more, *named.items())
            return store().cached(project, key, lambda: function(project, *more, **named), size=size)

        return read

    return decorate


def project_or_404(name: str) -> Project:
    """The project with this name; the frame of the page shows it."""
    project = queries.project(store(), name)
    if project is None:
        abort(404, f"There is no project named “{name}” here.")
    g.project, g.has_workloads = project, bool(queries.project_workloads(store(), project.name))
    return project


def commit_or_404(project: str, prefix: str) -> Commit:
    """The commit with this hash or a unique prefix of it."""
    try:
        commit = queries.find_commit(store(), project, prefix)
    except queries.AmbiguousCommitError as error:
        abort(404, f"{str(error)[:1].upper()}{str(error)[1:]}.")
    if commit is None:
        abort(404, f"No commit of {project} with results starts with “{prefix}”.")
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagination:
    """Position of a page in a list."""

    number: int  # of the page, from 1
    size: int  # entries per page
    total: int  # entries of the list

    @property
    def last(self) -> int:
        """Number of the last page; 1 for an empty list."""
        return max(1, -(-self.total // self.size))

    @property
    def previous(self) -> int | None:
        """Number of the previous page."""
        return min(self.number - 1, self.last) if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """Number of the next page."""
        return self.number + 1 if self.number < self.last else None

    def of(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        return entries[(self.number - 1) * self.size : self.number * self.size]


def pagination(size: int, total: int) -> Pagination:
    """Pagination of the page in the URL."""
    return Pagination(number=page_number(), size=size, total=total)


def page_number() -> int:
    """Page number from the URL; 1 if absent or invalid; at most a million, so that offsets fit a database integer."""
    return min(max(1, request.args.get("page", 1, type=int)), 1_000_000)


def search_query(argument: str = "q") -> str:
    """Search text from the URL, cut to a maximum length."""
    return request.args.get(argument, "").strip()[:_MAX_QUERY_LENGTH].strip()


def current_url(**changes: object) -> str:
    """URL of this page with some query parameters changed; None and empty values are removed."""
    path = request.view_args or {}
    query = {
        name: values if len(values) > 1 else values[0]
        for name, values in request.args.to_dict(flat=False).items()
        if name not in path
    }
    kept = {name: value for name, value in {**query, **changes}.items() if value not in (None, "", [])}
    return url_for(request.endpoint or "overview.index", **{**kept, **path})


def error_page(error: HTTPException) -> str:
    """The error page, in the frame of the project if known. Does not query the store, which may be the cause."""
    return render_template(
        "error.html",
        code=error.code or 500,
        heading=heading_of(error),
        sentence=sentence_of(error),
        advice=advice_of(error),
        other_projects=tuple,
    )


def register_globals(app: Flask) -> None:
    app.jinja_env.globals.update(
        static_file=static_file,
        current_url=current_url,
        gpu_label=gpu_label,
        operator_of=operator_of,
        series_url=series_url,
        commit_url=commit_url,
        embed_code=embed_code,
    )
    app.context_processor(_frame)


def listed_projects() -> tuple[Project, ...]:
    """Projects that pages list: all, or those of an exported site."""
    only = current_app.config.get("ONLY_PROJECTS")
    return tuple(project for project in queries.projects(store()) if only is None or project.name in only)


def gpu_label(machine: str) -> str:
    """GPU model of a machine of the page's project; empty if unknown or part of the machine's name."""
    if "gpus" not in g:  # once per request: tables call this per row
        g.gpus = {row.name: row.gpu for row in queries.machines(store(), g.project.name)}
    gpu = g.gpus.get(machine) or ""
    words, parts = set(gpu.lower().split()), set(re.split(r"[^a-z0-9]+", machine.lower()))
    return "" if words - {"nvidia"} <= parts or parts <= words else gpu


def operator_of(series: Series) -> str:
    """Operator of a series with a described workload, else empty."""
    if "workloads" not in g:  # once per request: tables call this per row
        g.workloads = {}
    if series.project not in g.workloads:
        g.workloads[series.project] = queries.project_workloads(store(), series.project)
    workload = workload_of(series, g.workloads[series.project])
    return workload.operator if workload else ""


def series_url(series: Series) -> str:
    return _beginning("series.show", series.project, "key") + quote(series.key, safe="")


def commit_url(project: str, commit: Commit) -> str:
    return _beginning("commits.show", project, "prefix") + quote(commit.hash, safe="")


def _beginning(endpoint: str, project: str, argument: str) -> str:
    """The URL up to its last part, once per request: pages have hundreds of such links, and `url_for` takes 30 µs."""
    if "beginnings" not in g:
        g.beginnings = {}
    if (endpoint, project) not in g.beginnings:
        names: dict[str, Any] = {"project": project, argument: "0"}
        g.beginnings[endpoint, project] = url_for(endpoint, **names).removesuffix("0")
    return str(g.beginnings[endpoint, project])


def external_url(endpoint: str, **names: str) -> str | None:
    """The absolute URL of a page; None in an exported site, which has no server."""
    return None if request.environ.get("warpwatch.site") else url_for(endpoint, _external=True, **names)


def embed_code(label: str, badge: str, page: str) -> str | None:
    """Markdown of a badge that links to a page, both by their paths; None in an exported site."""
    if request.environ.get("warpwatch.site"):
        return None
    image, target = (f"{request.host_url}{path[1:]}".replace("(", "%28").replace(")", "%29") for path in (badge, page))
    return f"[![{inert(label)}]({image})]({target})"


def static_file(name: str) -> str:
    """URL of a static file with its modification time, so that browsers may cache it for a year."""
    return url_for("static", filename=name, v=_version(name))


@lru_cache(maxsize=64)
def _version(name: str) -> str:
    return f"{int((_STATIC / name).stat().st_mtime):x}"


def _frame() -> dict[str, object]:
    def other_projects() -> tuple[Project, ...]:
        if request.authorization is not None:
            return ()  # a token reads one project only
        return tuple(project for project in listed_projects() if project != g.get("project"))

    newest: datetime | None = g.project.newest_run or g.project.newest_commit if "project" in g else None
    return {
        "current_project": g.get("project"),
        "has_workloads": g.get("has_workloads", False),
        "other_projects": other_projects,
        "newest_data": newest,
    }


def back_to(default: str, *, anchor: str = "") -> str:
    """URL of the form's field `back` if it is on this host, else the default; with the anchor."""
    page = own_page(request.form.get("back"), default)
    return f"{page.partition('#')[0]}#{anchor}" if anchor else page


def own_page(url: object, default: str | None = None) -> str:
    """The URL if it is a path of this host, else the default (the overview): no open redirects."""
    if isinstance(url, str) and _is_local_path(url):
        return url.rstrip("?")
    return url_for("overview.index") if default is None else default


def _is_local_path(url: str) -> bool:
    """Browsers read `//host` and `/\\host` as other hosts, and skip control characters."""
    if not url.startswith("/") or url.startswith("//") or "\\" in url or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
