"""`/api/projects/<project>/machines`, `/canaries` and `/measurement`: machines, canaries, progress of `make run`."""

from datetime import datetime

from flask import Blueprint
from pydantic import Field

from ...model.machine import Ceilings, Machine
from ...model.quantities import in_seconds
from ...model.schema import CommitSchema, Schema, SeriesSchema
from ...store import queries
from ...text.change_schema import ChangeSchema, change_schema
from ..measurement import Measurement, measurement_of
from ..request_context import project_or_404, store
from .operation import Listing, PageParams, QueryParams, Text, listing, operation

bp = Blueprint("api_machines", __name__, url_prefix="/api/projects/<project:project>")


class CeilingsSchema(Schema):
    """Peak rates of memory and math units from one source."""

    name: str
    source: str
    """`datasheet` or `measured`."""
    bandwidth_bytes_per_s: float | None
    l2_bandwidth_bytes_per_s: float | None
    throughput_flop_per_s: dict[str, float]
    """By dtype; integer operations for integers."""
    note: str | None
    measured_at: datetime | None


class GpuSchema(Schema):
    """One physical GPU of the machine."""

    uuid: str
    runs: int = Field(ge=0)
    newest_run: datetime | None


class MachineSchema(Schema):
    """A machine that recorded results."""

    name: str
    gpu: str | None
    cpu: str | None
    runs: int = Field(ge=0)
    newest_run: datetime | None
    newest_commit: CommitSchema | None
    gpus: list[GpuSchema]
    """Newest first; empty if no run recorded one."""
    peaks: CeilingsSchema | None
    """From the datasheet."""
    ceilings: CeilingsSchema | None
    """As measured on this machine."""


class MachineList(Listing):
    """Machines, newest run first."""

    items: list[MachineSchema]


@operation(bp, "/machines", params=PageParams, response=MachineList, tag="Machines")
def index(project: str, params: PageParams) -> MachineList:
    """List machines.

    Newest run first: GPUs, ceilings, newest data.
    """
    page, page_fields = listing(queries.machines(store(), project_or_404(project).name), params)
    return MachineList(items=[_schema(machine) for machine in page], **page_fields)


def _schema(machine: Machine) -> MachineSchema:
    return MachineSchema.of(
        machine, peaks=ceilings_schema(machine.limits.peaks), ceilings=ceilings_schema(machine.limits.measured)
    )


def ceilings_schema(limits: Ceilings | None) -> CeilingsSchema | None:
    if limits is None:
        return None
    return CeilingsSchema.of(
        limits,
        bandwidth_bytes_per_s=limits.bandwidth_bps,
        l2_bandwidth_bytes_per_s=limits.l2_bandwidth_bps,
        throughput_flop_per_s=limits.flops,
    )


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
def canaries(project: str, params: CanariesParams) -> CanaryList:
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
            CanarySchema.of(
                canary,
                machine=machine,
                latency_s=in_seconds(canary.value, canary.series.metric.unit),
                last_change=change_schema(canary.series, canary.last_change) if canary.last_change else None,
            )
            for machine, canary in page
        ],
        **page_fields,
    )


@operation(bp, "/measurement", params=QueryParams, response=Measurement, tag="Measurement")
def measurement(project: str, params: QueryParams) -> Measurement:
    """Get the progress of `make run`.

    As in the banner of the overview; the state is `none` on any other dashboard.
    """
    return measurement_of(project_or_404(project).name)
