"""What got worse, newest first, together where one commit moved several series on a machine."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from flask import Blueprint, render_template, request

from warpwatch.dashboard.measure_again import measure_again
from warpwatch.dashboard.pages.shared import pages, project_or_404, store
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import RegressionGroup

bp = Blueprint("regressions", __name__)

_GROUPS_OF_A_PAGE = 20
_MOST_GROUPS = 1000
PERIODS = {"30": "last 30 days", "90": "last 90 days", "365": "last year"}


@bp.get("/<project:project>/regressions")
def show(project: str) -> str:
    """The list, narrowed by machine, words, period and kind; only steps unless another kind is asked for."""
    found = project_or_404(project)
    machine = request.args.get("machine", "")
    words = request.args.get("q", "").strip()
    period = request.args.get("period", "")
    asked = request.args.get("kind", "")
    kind = ChangeKind(asked) if asked in set(ChangeKind) else ChangeKind.STEP
    groups = queries.regressions(store(), found.name, machine=machine or None, limit=_MOST_GROUPS, kind=kind)
    any_at_all = bool(groups)
    groups = _of_series(groups, words)
    if period in PERIODS:
        groups = _since(groups, datetime.now(UTC) - timedelta(days=int(period)))
    place = pages(_GROUPS_OF_A_PAGE, len(groups))
    return render_template(
        "regressions.html",
        groups=place.of(groups),
        total=len(groups),
        any_at_all=any_at_all,
        machine=machine,
        words=words,
        period=period if period in PERIODS else "",
        periods=PERIODS,
        kind=kind,
        kinds=tuple(ChangeKind),
        measure_again=measure_again,
        machines=queries.machines(store(), found.name),
        place=place,
    )


def _of_series(groups: Sequence[RegressionGroup], words: str) -> tuple[RegressionGroup, ...]:
    """The groups with only those series whose title has every word."""
    wanted = words.lower().split()
    narrowed = []
    for group in groups:
        kept = tuple(each for each in group.regressions if all(w in each.series.title.lower() for w in wanted))
        if kept:
            narrowed.append(replace(group, regressions=kept))
    return tuple(narrowed)


def _since(groups: Sequence[RegressionGroup], start: datetime) -> tuple[RegressionGroup, ...]:
    return tuple(group for group in groups if group.commit.date >= start)
