"""`/api/projects/<project>/series/<key>/history`: one series over commits, with what was found in it."""

from datetime import datetime
from typing import ClassVar

from flask import Blueprint, abort
from pydantic import Field

from ...analysis.thresholds import step_thresholds
from ...model.schema import Schema, SeriesSchema, commit_position, series_schema
from ...model.series import Point, Status
from ...statistics.levels import SegmentLevel, levels
from ...store.queries.series import OwnHistory, own_history
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import store
from .limits import LimitsSource, limits_source
from .operation import operation
from .query_params import CommitPrefix, Day, Table
from .series import series_or_404

bp = Blueprint("api_history", __name__, url_prefix="/api/projects/<project:project>/series")


class HistoryQuestion(Table):
    """Which part of the history; the whole where nothing is asked."""

    first: CommitPrefix | None = Field(None, alias="from")
    """The first commit's hash or its beginning."""
    last: CommitPrefix | None = Field(None, alias="to")
    """The last commit's."""
    since: Day | None = None
    """Only commits of that day (UTC) and later."""
    until: Day | None = None
    """Only commits of that day and earlier."""


class PointSchema(Schema):
    """One run's value at one commit."""

    commit: str
    date: datetime
    """When it was committed, UTC."""
    position: int | None
    value: float | None
    """In the series' unit, as q25 and q75; null unless the status is ok."""
    q25: float | None
    """Quartiles of the run's samples."""
    q75: float | None
    sample_count: int | None
    status: Status
    reason: str | None
    run: str
    run_time: datetime | None
    card: str | None
    """UUID of the GPU."""


class Level(Schema):
    """What held between two changes."""

    first_commit: str
    last_commit: str
    value: float | None
    """In the series' unit."""
    commits: int = Field(ge=0)
    """With a number; the whole level's, also where only a part of it was asked for."""
    card: str | None
    """UUID of the GPU, where several measured: each has levels of its own."""


class HistoryAnswer(Schema):
    """A series' points by commit, then run time, and what was found in the whole of it."""

    csv_rows: ClassVar[str] = "points"

    series: SeriesSchema
    points: list[PointSchema]
    levels: list[Level]
    changes: list[ChangeSchema]
    episodes: list[ChangeSchema]
    """Transients, states of the machine, drifts: what no commit is accused of."""
    limits: LimitsSource | None
    """Whose limits say which steps count; null: the project has stated none, and all do."""


@operation(bp, "/<key>/history", question=HistoryQuestion, answer=HistoryAnswer, tag="Series")
def show(project: str, key: str, asked: HistoryQuestion) -> HistoryAnswer:
    """One series' history: points, changes of level, levels and episodes, whole or between two commits or days.

    As CSV the points alone.
    """
    own = series_or_404(project, key)
    history = own_history(store(), own.key)
    assert history is not None
    points = _within(history, asked)
    kept = {point.commit.hash for point in points}
    told = [change for change in history.changes if change.commit.hash in kept]
    limits = step_thresholds(store(), own.project)
    return HistoryAnswer.model_construct(
        series=series_schema(own),
        points=[_point(point) for point in points],
        levels=[
            _level(level)
            for level in levels(history.points, history.changes, is_exact=own.metric.is_exact)
            if points
            and points[0].commit.position <= level.last.position
            and level.first.position <= points[-1].commit.position
        ],
        changes=[change_schema(own, change) for change in limits.mark_below_threshold(own, told)],
        limits=limits_source(limits.stated),
        episodes=[change_schema(own, each) for each in history.episodes if each.commit.hash in kept],
    )


def _within(history: OwnHistory, asked: HistoryQuestion) -> list[Point]:
    first, last = (_position(history, prefix) for prefix in (asked.first, asked.last))
    return [
        point
        for point in history.points
        if (first is None or point.commit.position >= first)
        and (last is None or point.commit.position <= last)
        and (asked.since is None or point.commit.date.date() >= asked.since)
        and (asked.until is None or point.commit.date.date() <= asked.until)
    ]


def _position(history: OwnHistory, prefix: str | None) -> int | None:
    if prefix is None:
        return None
    found = {p.commit.position for p in history.points if p.commit.hash.startswith(prefix.lower())}
    if len(found) != 1:
        said = "No commit" if not found else "More than one commit"
        abort(404, f"{said} of this series starts with “{prefix}”.")
    return found.pop()


def _level(level: SegmentLevel) -> Level:
    return Level(
        first_commit=level.first.hash,
        last_commit=level.last.hash,
        value=level.value,
        commits=level.commits,
        card=level.gpu,
    )


def _point(point: Point) -> PointSchema:
    return PointSchema.model_construct(
        commit=point.commit.hash,
        date=point.commit.date,
        position=commit_position(point.commit),
        value=point.value,
        q25=point.q25,
        q75=point.q75,
        sample_count=point.sample_count,
        status=point.status,
        reason=point.reason,
        run=point.run,
        run_time=point.run_time,
        card=point.gpu,
    )
