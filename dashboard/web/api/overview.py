"""`/api/projects/<project>/overview`: every kernel on every machine as it stands."""

from datetime import datetime
from typing import Literal

from flask import Blueprint
from pydantic import Field

from ...model.overview import OverviewRow
from ...model.quantities import in_seconds
from ...model.schema import CommitSchema, Schema, SeriesSchema, commit_schema, series_schema
from ...model.series import Status
from ...model.verdict import ChangeKind, Verdict
from ...store import queries
from ..request_context import project_or_404, store
from .operation import operation
from .query_params import Paged, Text
from .responses import Listing, listing

bp = Blueprint("api_overview", __name__, url_prefix="/api/projects/<project:project>")


class OverviewQuestion(Paged):
    """Which of the rows; all where nothing is asked."""

    machine: Text = ""
    """By its whole name."""
    operator: Text = ""
    """By its whole name, as `operator` in the answer."""
    verdict: Verdict | Literal[""] = ""
    """As the answer has it."""
    q: Text = ""
    """Words that benchmark, parameters, machine or environment must hold, letter case aside."""

    def keeps(self, row: OverviewRow) -> bool:
        """Whether the row is asked for; the machine is the query's to tell."""
        searched = f"{row.series.title} {row.series.machine} {row.series.environment}".lower()
        return (
            (not self.operator or row.operator == self.operator)
            and (not self.verdict or row.verdict == self.verdict)
            and all(word in searched for word in self.q.lower().split())
        )


class BestBaseline(Schema):
    """The fastest rival measured in the same run."""

    implementation: str
    ratio: float | None = Field(ge=0)
    """Its latency over ours: 1.2 means that we are 1.2 times as fast."""
    series: str


class Standing(Schema):
    """A series at its newest commit."""

    series: SeriesSchema
    operator: str | None
    verdict: Verdict
    value: float | None
    """In `series.unit`; null unless the status is ok."""
    latency_s: float | None
    """The value in seconds, where it is a latency."""
    status: Status
    reason: str | None
    change: float | None
    """Relative, against the level before within 30 days."""
    change_commit: str | None
    change_is_step: bool
    change_kind: ChangeKind | None
    """Of the step; `verdict` is told of steps alone. Null where there is none."""
    change_q: float | None
    """False discovery rate among all series of its run, of a step that may be a commit's."""
    speed_of_light_of_peak: float | None
    """The shortest latency that the datasheet allows as a share of ours."""
    speed_of_light_of_ceiling: float | None
    """The same by what was measured on this machine."""
    best_baseline: BestBaseline | None
    commit: CommitSchema
    newest_run: datetime | None


class Overview(Listing):
    """Rows by machine, operator, benchmark and parameters."""

    items: list[Standing]


@operation(bp, "/overview", question=OverviewQuestion, answer=Overview, tag="Overview")
def show(project: str, asked: OverviewQuestion) -> Overview:
    """Every kernel on every machine as it stands: newest value, verdict, change, speed of light, best baseline.

    One row for each workload and implementation of ours: its latency, or each judged series where there is none.
    """
    found = project_or_404(project)
    rows = queries.overview(store(), found.name, machine=asked.machine or None)
    kept, place = listing([row for row in rows if asked.keeps(row)], asked)
    return Overview(items=[standing(row) for row in kept], **place)


def standing(row: OverviewRow) -> Standing:
    """A row of the overview, also of one series."""
    light, best, metric = row.speed_of_light, row.baseline, row.series.metric
    return Standing(
        series=series_schema(row.series),
        operator=row.operator,
        verdict=row.verdict,
        value=row.value,
        latency_s=in_seconds(row.value, metric.unit) if metric.is_latency else None,
        status=row.status,
        reason=row.reason,
        change=row.change,
        change_commit=row.change_commit.hash if row.change_commit else None,
        change_is_step=bool(row.change_is_step),
        change_kind=row.change_kind,
        change_q=row.change_q,
        speed_of_light_of_peak=light.of_peak if light else None,
        speed_of_light_of_ceiling=light.of_ceiling if light else None,
        best_baseline=BestBaseline(implementation=best.implementation, ratio=best.ratio, series=best.series_key)
        if best
        else None,
        commit=commit_schema(row.commit),
        newest_run=row.newest_run,
    )
