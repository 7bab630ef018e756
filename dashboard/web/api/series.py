"""`/api/projects/<project>/series`: finding a series, and how it stands."""

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
from .operation import operation
from .overview import Standing, standing
from .query_params import CommitPrefix, Paged, Question, Table, Text
from .responses import Listing, place

bp = Blueprint("api_series", __name__, url_prefix="/api/projects/<project:project>/series")


class SeriesQuestion(Paged):
    """Which of the series; all where nothing is asked."""

    q: Text = ""
    """Words that benchmark, parameters, machine or environment must hold, letter case aside."""
    machine: Text = ""
    metric: Text = ""
    """Its name: `latency`, `peak_memory`."""
    implementation: Text = ""
    listed: Literal["yes", "no", ""] = ""
    """Whether the project's benchmarks still have it."""


class FoundSeries(Schema):
    """A series with its newest value."""

    series: SeriesSchema
    latest: float | None
    """In `series.unit`."""


class SeriesList(Listing):
    """Series by benchmark's name, those that are listed first."""

    items: list[FoundSeries]


class CompiledQuestion(Table):
    """Of which commit."""

    commit: CommitPrefix | None = None
    """A hash or its beginning; the series' newest commit where none is given."""


class Compiled(Schema):
    """What the compiler made of one kernel for one architecture."""

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
    """Theoretical, as a share of the warps that an SM can hold."""
    occupancy_limit: str | None
    sha256: str | None
    instructions: dict[str, int]
    """How many of each kind."""


class CompiledAnswer(Schema):
    """The kernels of the operator behind a series, at one commit."""

    csv_rows: ClassVar[str] = "kernels"

    commit: str | None = Field(description="The full hash; null where the series has no values.")
    kernels: list[Compiled]


@operation(bp, "", question=SeriesQuestion, answer=SeriesList, tag="Series")
def index(project: str, asked: SeriesQuestion) -> SeriesList:
    """Series by name, machine and metric, a part of the list at a time."""
    found = find_series(
        store(),
        project_or_404(project).name,
        search=asked.q,
        machine=asked.machine or None,
        metric=asked.metric or None,
        implementation=asked.implementation or None,
        listed=None if not asked.listed else asked.listed == "yes",
        limit=asked.limit,
        offset=asked.offset,
    )
    items = [
        FoundSeries.model_construct(series=series_schema(each), latest=found.latest.get(each.key))
        for each in found.series
    ]
    return SeriesList.model_construct(items=items, **place(found.total, asked))


@operation(bp, "/<key>", question=Question, answer=Standing, tag="Series")
def show(project: str, key: str, asked: Question) -> Standing:
    """One series as it stands: newest value, verdict, change, speed of light."""
    own = series_or_404(project, key)
    row = next((row for row in queries.siblings(store(), own.key) if row.series.key == own.key), None)
    if row is None:
        abort(404, f"The series “{key}” has not been analysed yet; its history has what was recorded.")
    return standing(row)


@operation(bp, "/<key>/compiled-code", question=CompiledQuestion, answer=CompiledAnswer, tag="Series")
def compiled(project: str, key: str, asked: CompiledQuestion) -> CompiledAnswer:
    """The compiled code behind a series at a commit: registers, memory, occupancy, instructions.

    Every kernel of its operator for every architecture that was built; an empty list where nobody recorded any.
    """
    own = series_or_404(project, key)
    commit = commit_or_404(own.project, asked.commit).hash if asked.commit else None
    found = compiled_code(store(), own.key, commit)
    return CompiledAnswer(
        commit=found.commit if found else None, kernels=[compiled_schema(each) for each in found.codes] if found else []
    )


def series_or_404(project: str, key: str) -> Series:
    """The project's series of that key."""
    found = project_or_404(project)
    series = queries.series(store(), key)
    if series is None or series.project != found.name:
        abort(404, f"There is no series “{key}” in {found.name}. Its benchmark may have been renamed.")
    return series


def compiled_schema(code: CompiledCode) -> Compiled:
    """One kernel."""
    return Compiled(
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
