"""`/api/projects/<project>/canaries`: fixed work that no commit changes, which tells of the machines alone."""

from datetime import datetime

from flask import Blueprint

from ...model.quantities import in_seconds
from ...model.schema import Schema, SeriesSchema, series_schema
from ...store import queries
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import project_or_404, store
from .operation import operation
from .query_params import Paged, Text
from .responses import Listing, listing

bp = Blueprint("api_canaries", __name__, url_prefix="/api/projects/<project:project>")


class CanariesQuestion(Paged):
    """Which of them."""

    machine: Text = ""


class VisitShape(Schema):
    """One of a canary's visits within a run."""

    at_s: float
    """Since the run began."""
    latency_s: float


class CanaryShape(Schema):
    """A canary as it stands: what it shows moved, moved in the machine."""

    machine: str
    series: SeriesSchema
    latency_s: float | None
    run_time: datetime | None
    spread: float | None
    """How far the visits of the newest run lie apart, relative to the smallest."""
    drift: float | None
    """From the first visit of the newest run to its last, relative."""
    last_change: ChangeSchema | None
    visits: list[VisitShape]


class CanaryList(Listing):
    """By machine."""

    items: list[CanaryShape]


@operation(bp, "/canaries", question=CanariesQuestion, answer=CanaryList, tag="Machines")
def index(project: str, asked: CanariesQuestion) -> CanaryList:
    """Each machine's canaries: their newest latency, how they moved within the newest run, and their last change."""
    by_machine = queries.canaries(store(), project_or_404(project).name)
    found = [
        (machine, canary)
        for machine, its in sorted(by_machine.items())
        for canary in its
        if asked.machine in ("", machine)
    ]
    kept, place = listing(found, asked)
    return CanaryList(
        items=[
            CanaryShape(
                machine=machine,
                series=series_schema(each.series),
                latency_s=in_seconds(each.value, each.series.metric.unit),
                run_time=each.run_time,
                spread=each.spread,
                drift=each.drift,
                last_change=change_schema(each.series, each.last_change) if each.last_change else None,
                visits=[VisitShape(at_s=visit.at_s, latency_s=visit.latency_s) for visit in each.visits],
            )
            for machine, each in kept
        ],
        **place,
    )
