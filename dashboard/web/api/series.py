"""`/api/projects/<project>/series`: series, their current state, compiled code and history."""

from datetime import datetime
from typing import ClassVar, Literal

from flask import Blueprint, abort
from pydantic import Field

from ...analysis.slow_decline import with_causes
from ...analysis.thresholds import step_thresholds
from ...model.compiled_code import CompiledCode
from ...model.schema import PublishedPosition, Schema, SeriesSchema, series_schema
from ...model.series import Point, Series, Status
from ...statistics.levels import levels
from ...store import queries
from ...store.queries.compiled_code import compiled_code
from ...store.queries.series import OwnHistory, own_history
from ...store.queries.series_list import find_series
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import commit_or_404, project_or_404, store
from .limits import LimitsSource, limits_source
from .operation import CommitPrefix, CsvParams, Day, Listing, PageParams, QueryParams, Text, operation, page_fields
from .projects import SeriesStateSchema, series_state_schema

bp = Blueprint("api_series", __name__, url_prefix="/api/projects/<project:project>/series")


class SeriesParams(PageParams):
    """Filters of series."""

    q: Text = ""
    """Words in kernel, benchmark, parameters, machine or environment, and conditions such as `dtype=fp16`,
    `head_dim=64,128`, `kernel=*attention*`, `implementation!=triton` or `seq_kv>=4096`; case-insensitive."""
    machine: Text = ""
    metric: Text = ""
    """Name, such as `latency` or `peak_memory`."""
    implementation: Text = ""
    listed: Literal["yes", "no", ""] = ""
    """Whether the benchmark still exists in the project."""


class SeriesLatestSchema(Schema):
    """A series and its newest value."""

    series: SeriesSchema
    latest: float | None
    """In `series.unit`."""


class SeriesList(Listing):
    """Series by name, listed ones first."""

    items: list[SeriesLatestSchema]


class CompiledCodeParams(CsvParams):
    """The commit."""

    commit: CommitPrefix | None = None
    """Hash or a prefix of it; default: the newest commit of the series."""


class CompiledCodeSchema(Schema):
    """Compiled code of one kernel for one architecture."""

    operator: str
    kernel: str
    architecture: str
    implementation: str | None
    registers: int | None
    stack_bytes: int | None
    shared_memory_bytes: int | None
    dynamic_shared_memory_bytes: int | None
    local_memory_instructions: int | None
    code_bytes: int | None
    barriers: int | None
    occupancy: float | None
    """Theoretical occupancy: fraction of the warps that an SM can hold."""
    occupancy_limit: str | None
    sha256: str | None
    instructions: dict[str, int]
    """Number of instructions of each kind."""


class CompiledCodeResponse(Schema):
    """Compiled kernels of the series' operator at one commit."""

    csv_rows: ClassVar[str] = "kernels"

    commit: str | None = Field(description="Full hash; null if the series has no values.")
    kernels: list[CompiledCodeSchema]


@operation(bp, "", params=SeriesParams, response=SeriesList, tag="Series")
def index(project: str, params: SeriesParams) -> SeriesList:
    """List series."""
    page = find_series(
        store(),
        project_or_404(project).name,
        search=params.q,
        machine=params.machine or None,
        metric=params.metric or None,
        implementation=params.implementation or None,
        listed=None if not params.listed else params.listed == "yes",
        limit=params.limit,
        offset=params.offset,
    )
    items = [
        SeriesLatestSchema.model_construct(series=series_schema(series), latest=page.latest.get(series.key))
        for series in page.series
    ]
    return SeriesList.model_construct(items=items, **page_fields(page.total, params))


@operation(bp, "/<key>", params=QueryParams, response=SeriesStateSchema, tag="Series")
def show(project: str, key: str, params: QueryParams) -> SeriesStateSchema:
    """Get a series.

    Newest value, verdict, change, speed of light.
    """
    series = series_or_404(project, key)
    row = next((row for row in queries.siblings(store(), series.key) if row.series.key == series.key), None)
    if row is None:
        abort(404, f"The series “{key}” is not analysed yet; its history has the recorded values.")
    return series_state_schema(row)


@operation(bp, "/<key>/compiled-code", params=CompiledCodeParams, response=CompiledCodeResponse, tag="Series")
def compiled(project: str, key: str, params: CompiledCodeParams) -> CompiledCodeResponse:
    """Get the compiled code of a series.

    Registers, memory, occupancy and instructions of every kernel of its operator, for every architecture that was
    built; an empty list if none was recorded.
    """
    series = series_or_404(project, key)
    commit = commit_or_404(series.project, params.commit).hash if params.commit else None
    recorded = compiled_code(store(), series.key, commit)
    return CompiledCodeResponse(
        commit=recorded.commit if recorded else None,
        kernels=[compiled_code_schema(code) for code in recorded.codes] if recorded else [],
    )


def series_or_404(project: str, key: str) -> Series:
    """The series with this key in the project."""
    name = project_or_404(project).name
    series = queries.series(store(), key)
    if series is None or series.project != name:
        abort(404, f"There is no series “{key}” in {name}. Its benchmark may have been renamed.")
    return series


def compiled_code_schema(code: CompiledCode) -> CompiledCodeSchema:
    return CompiledCodeSchema.of(
        code,
        shared_memory_bytes=code.shared_bytes,
        dynamic_shared_memory_bytes=code.dynamic_shared_bytes,
    )


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
    position: PublishedPosition
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
def history(project: str, key: str, params: HistoryParams) -> HistoryResponse:
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
            LevelSchema.of(level, first_commit=level.first.hash, last_commit=level.last.hash)
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


def _point(point: Point, gpu_ratio: float | None) -> PointSchema:
    return PointSchema.of(
        point,
        commit=point.commit.hash,
        date=point.commit.date,
        position=point.commit.position,
        adjusted_value=point.value * gpu_ratio if point.value is not None and gpu_ratio is not None else None,
    )
