"""The release report: what changed between two tags or commits, by kernel, also as Markdown."""

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from ...analysis.release_report import ReleaseReport, release_report, tag_names
from ...model.series import Commit, Project
from ...store import queries
from ...text.comparison_report import outcome, release_markdown, sentence, standing
from ..request_context import default_threshold, project_or_404, store
from .compare import NoSideError, find, measured_by

bp = Blueprint("release", __name__, url_prefix="/<project:project>/release")

_CHOICES = 100  # newest commits


@bp.get("")
def show(project: str) -> ResponseReturnValue:
    """The report of `base` and `head`: by default of the newest complete commit since the newest tag before it.

    Complete: not of some benchmarks only. Without a tag since the oldest of the newest commits that one of its
    machines measured.
    """
    current = project_or_404(project)
    tags = tag_names(store(), current.name)
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    try:
        sides = _sides(current, base, head, tags)
    except NoSideError as error:
        return _page(current, tags, complaint=str(error)), 404
    report = release_report(store(), current.name, *sides, threshold=default_threshold()) if sides else None
    if report is not None and request.args.get("format") == "markdown":
        return Response(release_markdown(report), mimetype="text/markdown")
    return _page(current, tags, report=report)


def _sides(project: Project, base: str, head: str, tags: dict[str, str]) -> tuple[Commit, Commit] | None:
    """The two commits; None if the project has only one. Raises NoSideError."""
    newest = queries.newest_measured(store(), project.name, ())
    if newest is None:
        raise NoSideError("No commit has results yet.")
    head_commit = find(project, head) if head else newest
    if base:
        return find(project, base), head_commit
    for tagged in reversed(tags):
        commit = queries.find_commit(store(), project.name, tagged)
        if commit is not None and commit.position < head_commit.position:
            return commit, head_commit
    machines = measured_by(project.name, head_commit)
    for commit in reversed(queries.commits(store(), project.name, limit=_CHOICES)):
        if commit.position < head_commit.position and machines & measured_by(project.name, commit):
            return commit, head_commit
    return None


def _page(
    project: Project, tags: dict[str, str], *, report: ReleaseReport | None = None, complaint: str | None = None
) -> str:
    return render_template(
        "release.html",
        report=report,
        complaint=complaint,
        tags=list(reversed(tags.values())),
        newest=queries.commits(store(), project.name, limit=_CHOICES),
        named={side: request.args.get(side, "") for side in ("base", "head")},
        markdown=release_markdown(report) if report is not None else "",
        sentence=sentence,
        outcome=outcome,
        standing=standing,
    )
