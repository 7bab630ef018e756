"""The commits that have results, and everything recorded at one of them."""

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.pages.shared import pages, project_or_404, store
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Status

bp = Blueprint("commits", __name__)

_NEWEST = 200
_ROWS_OF_A_PAGE = 100


@bp.get("/<project:project>/commits")
def index(project: str) -> str:
    """The newest commits that have results."""
    found = project_or_404(project)
    return render_template("commits.html", commits=queries.commits(store(), found.name, limit=_NEWEST), newest=_NEWEST)


@bp.get("/<project:project>/commit/<prefix>")
def show(project: str, prefix: str) -> ResponseReturnValue:
    """One commit; a shortened hash leads to the full one, so that an address means the same for ever."""
    found = project_or_404(project)
    try:
        page = queries.commit_page(store(), found.name, prefix)
    except queries.AmbiguousCommitError as error:
        abort(404, f"{str(error)[:1].upper()}{str(error)[1:]}.")
    if page is None:
        abort(404, f"No commit of {found.name} that starts with “{prefix}” has results.")
    if page.commit.hash != prefix:
        return redirect(url_for(".show", project=project, prefix=page.commit.hash))
    words = request.args.get("q", "").strip()
    wanted = words.lower().split()
    there = [point for point in page.points if point.status is not Status.UNAVAILABLE]
    points = [
        point
        for point in there
        if all(word in f"{point.series.title} {point.series.machine}".lower() for word in wanted)
    ]
    points.sort(key=lambda point: not point.series.metric.is_judged)  # what is judged comes first
    place = pages(_ROWS_OF_A_PAGE, len(points))
    return render_template(
        "commit.html",
        commit_page=page,
        words=words,
        points=place.of(points),
        place=place,
        unavailable=len(page.points) - len(there),
    )
