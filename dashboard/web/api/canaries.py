"""`/api/projects/<project>/canaries`: fixed work that no commit changes; it measures the machines."""

from datetime import datetime

from flask import Blueprint

from ...model.quantities import in_seconds
from ...model.schema import Schema, SeriesSchema, series_schema
from ...store import queries
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import project_or_404, store
from .operation import Listing, PageParams, Text, listing, operation

bp = Blueprint("api_canaries", __name__, url_prefix="/api/projects/<project:project>")


class CanariesParams(PageParams):
    """Filters of canaries."""

    machine: Text = ""


class CanaryVisitSchema(Schema):
    """One measurement of a canary within a run."""

    at_s: float
    """Since the run began."""
    latency_s: float


class CanarySchema(Schema):
    """Current state of a canary; its changes are changes of the machine."""

    machine: str
    series: SeriesSchema
    latency_s: float | None
    run_time: datetime | None
    spread: float | None
    """Range of the latencies in the newest run, relative to the smallest."""
    drift: float | None
    """Relative change from the first measurement of the newest run to the last."""
    last_change: ChangeSchema | None
    visits: list[CanaryVisitSchema]


class CanaryList(Listing):
    """Canaries by machine."""

    items: list[CanarySchema]


@operation(bp, "/canaries", params=CanariesParams, response=CanaryList, tag="Machines")
def index(project: str, params: CanariesParams) -> CanaryList:
    """List canaries.

    Newest latency, drift within the newest run, and last change, by machine.
    """
    by_machine = queries.canaries(store(), project_or_404(project).name)
    rows = [
        (machine, canary)
        for machine, canaries in sorted(by_machine.items())
        for canary in canaries
        if params.machine in ("", machine)
    ]
    page, page_fields = listing(rows, params)
    return CanaryList(
        items=[
            CanarySchema(
                machine=machine,
                series=series_schema(canary.series),
                latency_s=in_seconds(canary.value, canary.series.metric.unit),
                run_time=canary.run_time,
                spread=canary.spread,
                drift=canary.drift,
                last_change=change_schema(canary.series, canary.last_change) if canary.last_change else None,
                visits=[CanaryVisitSchema(at_s=visit.at_s, latency_s=visit.latency_s) for visit in canary.visits],
            )
            for machine, canary in page
        ],
        **page_fields,
    )
