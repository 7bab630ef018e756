"""`/api/projects` and `/api/projects/<project>/overview`: projects, and the current state of their kernels."""

from datetime import datetime
from typing import Literal

from flask import Blueprint
from pydantic import Field

from ...model.overview import OverviewRow
from ...model.quantities import in_seconds
from ...model.schema import CommitSchema, Schema, SeriesSchema
from ...model.series import Status
from ...model.verdict import ChangeKind, Verdict
from ...store import queries
from ...text.labels import inconclusive_reason
from ..request_context import project_or_404, store
from .operation import Listing, PageParams, QueryParams, Text, listing, operation

bp = Blueprint("api_projects", __name__, url_prefix="/api/projects")


class ProjectSchema(Schema):
    """One project."""

    name: str
    machines: int = Field(ge=0)
    series: int = Field(ge=0)
    commits: int = Field(ge=0)
    newest_commit: datetime | None
    newest_run: datetime | None
    unanalysed: int = Field(ge=0)
    """Series with values newer than their analysis, or analysed by an older version."""
    unjudged: int = Field(ge=0)
    """Machines with findings that are not classified yet."""


class ProjectList(Listing):
    """Projects, newest run first."""

    items: list[ProjectSchema]


@operation(bp, "", params=PageParams, response=ProjectList, tag="Projects", statuses=())
def index(params: PageParams) -> ProjectList:
    """List projects.

    Newest run first.
    """
    page, page_fields = listing(queries.projects(store()), params)
    return ProjectList(items=[ProjectSchema.of(project) for project in page], **page_fields)


@operation(bp, "/<project:project>", params=QueryParams, response=ProjectSchema, tag="Projects")
def show(project: str, params: QueryParams) -> ProjectSchema:
    """Get a project."""
    return ProjectSchema.of(project_or_404(project))


class OverviewParams(PageParams):
    """Filters of rows."""

    machine: Text = ""
    """Full name."""
    operator: Text = ""
    """Full name."""
    verdict: Verdict | Literal[""] = ""
    q: Text = ""
    """Words in kernel, benchmark, parameters, machine or environment, and conditions such as `dtype=fp16`,
    `head_dim=64,128`, `kernel=*attention*`, `implementation!=triton` or `seq_kv>=4096`; case-insensitive."""

    def matches(self, row: OverviewRow) -> bool:
        """Whether the row passes the filters of operator and verdict."""
        return (not self.operator or row.operator == self.operator) and (
            not self.verdict or row.verdict == self.verdict
        )


class BestBaselineSchema(Schema):
    """The fastest baseline of the same run."""

    implementation: str
    ratio: float | None = Field(ge=0)
    """Speedup: its latency over ours."""
    series: str


class SeriesStateSchema(Schema):
    """State of a series at its newest commit."""

    series: SeriesSchema
    operator: str | None
    verdict: Verdict
    inconclusive_reason: str | None
    """Why there is no verdict."""
    value: float | None
    """In `series.unit`; null unless the status is ok."""
    latency_s: float | None
    """The value in seconds if it is a latency."""
    status: Status
    reason: str | None
    change: float | None
    """Relative to the previous level, within 30 days."""
    change_commit: str | None
    change_is_step: bool
    change_kind: ChangeKind | None
    """Kind of the change; only steps set `verdict`. Null without a change."""
    change_q: float | None
    """False discovery rate among all series of the run; null for changes of the machine."""
    change_is_across_gpus: bool
    """No GPU measured both the step's commit and the one before it."""
    gpu_spread: float | None
    """Of a series that several GPUs measured: 95 % of unchanged code changes by less between two of them."""
    speed_of_light_of_peak: float | None
    """Shortest latency by the datasheet, as a fraction of ours."""
    speed_of_light_of_ceiling: float | None
    """The same by the measured ceilings of this machine."""
    best_baseline: BestBaselineSchema | None
    commit: CommitSchema
    newest_run: datetime | None


class OverviewList(Listing):
    """Rows by machine, operator, benchmark and parameters."""

    items: list[SeriesStateSchema]


@operation(bp, "/<project:project>/overview", params=OverviewParams, response=OverviewList, tag="Overview")
def overview(project: str, params: OverviewParams) -> OverviewList:
    """Get the overview.

    Newest value, verdict, change, speed of light and best baseline of each workload and implementation of ours: its
    latency, or each judged series if there is none.
    """
    name = project_or_404(project).name
    rows = queries.overview(store(), name, machine=params.machine or None)
    if params.q:
        found = queries.matching(store(), name, params.q, (row.series for row in rows))
        rows = tuple(row for row in rows if row.series.key in found)
    page, page_fields = listing([row for row in rows if params.matches(row)], params)
    return OverviewList(items=[series_state_schema(row) for row in page], **page_fields)


def series_state_schema(row: OverviewRow) -> SeriesStateSchema:
    """State of the series of an overview row."""
    light, best, metric = row.speed_of_light, row.baseline, row.series.metric
    return SeriesStateSchema.of(
        row,
        inconclusive_reason=inconclusive_reason(row),
        latency_s=in_seconds(row.value, metric.unit) if metric.is_latency else None,
        change_commit=row.change_commit.hash if row.change_commit else None,
        change_is_across_gpus=row.is_across_gpus,
        speed_of_light_of_peak=light.of_peak if light else None,
        speed_of_light_of_ceiling=light.of_ceiling if light else None,
        best_baseline=BestBaselineSchema.of(best, series=best.series_key) if best else None,
    )
