"""`/api/projects/<project>/series`: series and their current state."""

from typing import ClassVar, Literal

from flask import Blueprint, abort
from pydantic import Field

from ...model.compiled_code import CompiledCode
from ...model.schema import Schema, SeriesSchema, series_schema
from ...model.series import Series
from ...store import queries
from ...store.queries.compiled_code import compiled_code
from ...store.queries.series_list import find_series
from ..request_context import commit_or_404, project_or_404, store
from .operation import CommitPrefix, CsvParams, Listing, PageParams, QueryParams, Text, operation, page_fields
from .overview import SeriesStateSchema, series_state_schema

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
    return CompiledCodeSchema(
        operator=code.operator,
        kernel=code.kernel,
        architecture=code.architecture,
        implementation=code.implementation,
        registers=code.registers,
        stack_bytes=code.stack_bytes,
        shared_memory_bytes=code.shared_bytes,
        dynamic_shared_memory_bytes=code.dynamic_shared_bytes,
        local_memory_instructions=code.local_memory_instructions,
        code_bytes=code.code_bytes,
        barriers=code.barriers,
        occupancy=code.occupancy,
        occupancy_limit=code.occupancy_limit,
        sha256=code.sha256,
        instructions=dict(code.instructions),
    )
