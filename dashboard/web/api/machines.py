"""`/api/projects/<project>/machines`: machines, their GPUs, ceilings and newest data."""

from datetime import datetime

from flask import Blueprint
from pydantic import Field

from ...model.machine import Ceilings, Machine
from ...model.schema import CommitSchema, Schema, commit_schema
from ...store import queries
from ..request_context import project_or_404, store
from .operation import Listing, PageParams, listing, operation

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
    return MachineSchema(
        name=machine.name,
        gpu=machine.gpu,
        cpu=machine.cpu,
        runs=machine.runs,
        newest_run=machine.newest_run,
        newest_commit=commit_schema(machine.newest_commit) if machine.newest_commit else None,
        gpus=[GpuSchema(uuid=gpu.uuid, runs=gpu.runs, newest_run=gpu.newest_run) for gpu in machine.gpus],
        peaks=ceilings_schema(machine.limits.peaks),
        ceilings=ceilings_schema(machine.limits.measured),
    )


def ceilings_schema(limits: Ceilings | None) -> CeilingsSchema | None:
    if limits is None:
        return None
    return CeilingsSchema(
        name=limits.name,
        source=limits.source,
        bandwidth_bytes_per_s=limits.bandwidth_bps,
        l2_bandwidth_bytes_per_s=limits.l2_bandwidth_bps,
        throughput_flop_per_s=dict(limits.flops),
        note=limits.note,
        measured_at=limits.measured_at,
    )
