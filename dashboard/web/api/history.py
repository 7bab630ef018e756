"""`/api/projects/<project>/series/<key>/history`: a series over commits, with its changes and episodes."""

from datetime import datetime
from typing import ClassVar

from flask import Blueprint, abort
from pydantic import Field

from ...analysis.slow_decline import with_causes
from ...analysis.thresholds import step_thresholds
from ...model.schema import Schema, SeriesSchema, commit_position, series_schema
from ...model.series import Point, Status
from ...statistics.levels import SegmentLevel, levels
from ...store import queries
from ...store.queries.series import OwnHistory, own_history
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import store
from .limits import LimitsSource, limits_source
from .operation import CommitPrefix, CsvParams, Day, operation
from .series import series_or_404

bp = Blueprint("api_history", __name__, url_prefix="/api/projects/<project:project>/series")


class HistoryParams(CsvParams):
    """The part of the history; the whole by default."""

    first: CommitPrefix | None = Field(None, alias="from")
    """Hash of the first commit, or a prefix of it."""
    last: CommitPrefix | None = Field(None, alias="to")
    """Hash of the last commit, or a prefix of it."""
    since: Day | None = None
    """Only commits of that day (UTC) and later."""
    until: Day | None = None
    """Only commits of that day and earlier."""


class PointSchema(Schema):
    """Value of one run at one commit."""

    commit: str
    date: datetime
    """When it was committed, UTC."""
    position: int | None
    value: float | None
    """In the series' unit, like q25 and q75; null unless the status is ok."""
    adjusted_value: float | None
    """GPU-adjusted: as the newest GPU and software would have measured; null if one GPU measured, or not known."""
    q25: float | None
    """Quartiles of the run's samples."""
    q75: float | None
    sample_count: int | None
    status: Status
    reason: str | None
    run: str
    run_time: datetime | None
    gpu: str | None
    """UUID of the GPU."""


class LevelSchema(Schema):
    """The level between two changepoints."""

    first_commit: str
    last_commit: str
    value: float | None
    """In the series' unit."""
    commits: int = Field(ge=0)
    """With a valid value; of the whole level, even if the request is for a part of it."""
    gpu: str | None
    """UUID of the GPU if there are several that are not comparable; each has its own levels."""
    is_gpu_adjusted: bool
    """As the newest session's GPU and software would have measured it, on all GPUs."""


class HistoryResponse(Schema):
    """Points by commit and run time; changes, levels and episodes of the whole series."""

    csv_rows: ClassVar[str] = "points"

    series: SeriesSchema
    points: list[PointSchema]
    levels: list[LevelSchema]
    changes: list[ChangeSchema]
    episodes: list[ChangeSchema]
    """Transients, machine states, drifts and slow declines: caused by no single commit."""
    limits: LimitsSource | None
    """Source of the thresholds; null if the project has none, so that all steps count."""


@operation(bp, "/<key>/history", params=HistoryParams, response=HistoryResponse, tag="Series")
def show(project: str, key: str, params: HistoryParams) -> HistoryResponse:
    """Get the history of a series.

    Points, changepoints, levels and episodes, between two commits or days if given. CSV has the points only.
    """
    series = series_or_404(project, key)
    history = own_history(store(), series.key)
    assert history is not None
    points = _within(history, params)
    commits = {point.commit.hash for point in points}
    changes = [change for change in history.changes if change.commit.hash in commits]
    ratios = queries.adjusting_ratios(store(), series.project, {series.key}).get(series.key, ())
    limits = step_thresholds(store(), series.project)
    return HistoryResponse.model_construct(
        series=series_schema(series),
        points=[_point(point, history.gpu_ratios.get(point.commit.hash)) for point in points],
        levels=[
            _level(level)
            for level in levels(history.points, history.changes, is_exact=series.metric.is_exact, ratios=ratios)
            if points
            and points[0].commit.position <= level.last.position
            and level.first.position <= points[-1].commit.position
        ],
        changes=[change_schema(series, change) for change in limits.mark_below_threshold(series, changes)],
        limits=limits_source(limits.stated),
        episodes=[
            change_schema(series, episode)
            for episode in with_causes(store(), series.project, series.key, history.episodes)
            if episode.commit.hash in commits
        ],
    )


def _within(history: OwnHistory, params: HistoryParams) -> list[Point]:
    first, last = (_position(history, prefix) for prefix in (params.first, params.last))
    return [
        point
        for point in history.points
        if (first is None or point.commit.position >= first)
        and (last is None or point.commit.position <= last)
        and (params.since is None or point.commit.date.date() >= params.since)
        and (params.until is None or point.commit.date.date() <= params.until)
    ]


def _position(history: OwnHistory, prefix: str | None) -> int | None:
    if prefix is None:
        return None
    positions = {p.commit.position for p in history.points if p.commit.hash.startswith(prefix.lower())}
    if len(positions) != 1:
        subject = "No commit" if not positions else "More than one commit"
        abort(404, f"{subject} of this series starts with “{prefix}”.")
    return positions.pop()


def _level(level: SegmentLevel) -> LevelSchema:
    return LevelSchema(
        first_commit=level.first.hash,
        last_commit=level.last.hash,
        value=level.value,
        commits=level.commits,
        gpu=level.gpu,
        is_gpu_adjusted=level.is_gpu_adjusted,
    )


def _point(point: Point, gpu_ratio: float | None) -> PointSchema:
    return PointSchema.model_construct(
        commit=point.commit.hash,
        date=point.commit.date,
        position=commit_position(point.commit),
        value=point.value,
        adjusted_value=point.value * gpu_ratio if point.value is not None and gpu_ratio is not None else None,
        q25=point.q25,
        q75=point.q75,
        sample_count=point.sample_count,
        status=point.status,
        reason=point.reason,
        run=point.run,
        run_time=point.run_time,
        gpu=point.gpu,
    )
