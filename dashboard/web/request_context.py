"""The request: its store and project, pagination, and what the frame of every page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from flask import Flask, abort, current_app, g, render_template, request, url_for
from werkzeug.exceptions import HTTPException

from ..model.series import Commit, Project
from ..store import Store, queries
from .error_messages import advice_of, heading_of, sentence_of

Entry = TypeVar("Entry")
_LONGEST_WORDS = 200  # letters of what a reader looks for; each word costs a look at every name
_STATIC = Path(__file__).with_name("static")


def store() -> Store:
    """The application's store."""
    opened = current_app.extensions["store"]
    assert isinstance(opened, Store)
    return opened


def project_or_404(name: str) -> Project:
    """The project of the page's URL, also shown in the page's frame."""
    project = queries.project(store(), name)
    if project is None:
        abort(404, f"There is no project named “{name}” here.")
    g.project = project
    return project


def commit_or_404(project: str, prefix: str) -> Commit:
    """The commit of a hash or its beginning."""
    try:
        commit = queries.find_commit(store(), project, prefix)
    except queries.AmbiguousCommitError as error:
        abort(404, f"{str(error)[:1].upper()}{str(error)[1:]}.")
    if commit is None:
        abort(404, f"No commit of {project} that starts with “{prefix}” has results.")
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Where in a long list this page is."""

    number: int  # from 1
    size: int  # entries of a page
    total: int  # entries of the list

    @property
    def last(self) -> int:
        """The number of the last page, 1 for an empty list."""
        return max(1, -(-self.total // self.size))

    @property
    def previous(self) -> int | None:
        """The page before, if there is one."""
        return min(self.number - 1, self.last) if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """The page after, if there is one."""
        return self.number + 1 if self.number < self.last else None

    def of(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """This page's part of the whole list."""
        return entries[(self.number - 1) * self.size : self.number * self.size]


def pages(size: int, total: int) -> Pages:
    """The page the URL asks for; the first if it asks for none or for nonsense."""
    return Pages(number=page_number(), size=size, total=total)


def page_number() -> int:
    """The number in the URL, 1 if there is none or nonsense. At most a million: databases count no further."""
    return min(max(1, request.args.get("page", 1, type=int)), 1_000_000)


def words_asked(argument: str = "q") -> str:
    """What the reader looks for, cut to what a search can mean."""
    return request.args.get(argument, "").strip()[:_LONGEST_WORDS].strip()


def here(**changed: object) -> str:
    """This page's URL with some of its query changed; what becomes None or empty leaves the URL."""
    told = request.args.to_dict(flat=False).items()
    query = {name: values if len(values) > 1 else values[0] for name, values in told}
    query = {name: value for name, value in query.items() if name not in (request.view_args or {})}
    arguments = {**query, **changed}
    said = {name: value for name, value in arguments.items() if value not in (None, "", [])}
    return url_for(request.endpoint or "overview.index", **{**said, **(request.view_args or {})})


def error_page(error: HTTPException) -> str:
    """A page that says what is wrong and what to do, in the project's frame where there is one.

    The frame asks the store nothing: it may be what is wrong.
    """
    return render_template(
        "error.html",
        code=error.code or 500,
        heading=heading_of(error),
        sentence=sentence_of(error),
        advice=advice_of(error),
        other_projects=tuple,
    )


def register_globals(app: Flask) -> None:
    """The names that templates use without being given them."""
    app.jinja_env.globals.update(static_file=static_file, here=here, gpu_beside=gpu_beside)
    app.context_processor(_frame)


def listed_projects() -> tuple[Project, ...]:
    """The projects that pages name: all of the store's, or those that an exported site is of."""
    only = current_app.config.get("ONLY_PROJECTS")
    return tuple(each for each in queries.projects(store()) if only is None or each.name in only)


def gpu_beside(machine: str) -> str:
    """The GPU of a machine of the page's project, to stand beside its name; empty where the name tells it, or nobody
    does."""
    if "gpus" not in g:  # a table asks for each of its rows
        g.gpus = {each.name: each.gpu for each in queries.machines(store(), g.project.name)}
    gpu = g.gpus.get(machine) or ""
    words = [word for word in gpu.lower().split() if word != "nvidia"]
    return "" if all(word in machine.lower() for word in words) else gpu


def static_file(name: str) -> str:
    """The URL of a file of ours; its time of change is in it, so that browsers may keep it for a year."""
    return url_for("static", filename=name, v=_changed(name))


@lru_cache(maxsize=64)
def _changed(name: str) -> str:
    return f"{int((_STATIC / name).stat().st_mtime):x}"


def _frame() -> dict[str, object]:
    def other_projects() -> tuple[Project, ...]:
        if request.authorization is not None:
            return ()  # a token reads one project, and is not told of the others
        return tuple(each for each in listed_projects() if each != g.get("project"))

    newest: datetime | None = g.project.newest_run or g.project.newest_commit if "project" in g else None
    return {"current_project": g.get("project"), "other_projects": other_projects, "newest_data": newest}


# Addresses that a request names to go on to: only pages of ours, so that no link of ours leads to another site.


def back_to(otherwise: str, *, anchor: str = "") -> str:
    """The page that the form's field `back` names, if it is one of ours; at that part of it."""
    page = own_page(request.form.get("back"), otherwise)
    return f"{page.partition('#')[0]}#{anchor}" if anchor else page


def own_page(address: object, otherwise: str | None = None) -> str:
    """The address if it is a path of this host, else `otherwise`, by default the overview."""
    if isinstance(address, str) and _is_ours(address):
        return address.rstrip("?")
    return url_for("overview.index") if otherwise is None else otherwise


def _is_ours(address: str) -> bool:
    """A path of this host. Browsers take `//host` and `/\\host` for other hosts, and pass over control characters."""
    if not address.startswith("/") or address.startswith("//") or "\\" in address or not address.isprintable():
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
