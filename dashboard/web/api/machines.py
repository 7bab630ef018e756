"""`/api/projects/<project>/machines`: who measures, what each can do at most, and how old its newest data is."""

from datetime import datetime

from flask import Blueprint
from pydantic import Field

from ...model.machine import Ceilings, Machine
from ...model.schema import CommitSchema, Schema, commit_schema
from ...store import queries
from ..request_context import project_or_404, store
from .operation import operation
from .query_params import Paged
from .responses import Listing, listing

bp = Blueprint("api_machines", __name__, url_prefix="/api/projects/<project:project>")


class CeilingsSchema(Schema):
    """What memory and math units can do at most, by one source."""

    name: str
    source: str
    """`datasheet` or `measured`."""
    bandwidth_bytes_per_s: float | None
    l2_bandwidth_bytes_per_s: float | None
    throughput_flop_per_s: dict[str, float]
    """By dtype; of integers operations."""
    note: str | None
    measured_at: datetime | None


class CardSchema(Schema):
    """One physical GPU that measured under the machine's name."""

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
    cards: list[CardSchema]
    """The newest first; empty where no run named one."""
    peaks: CeilingsSchema | None
    """The datasheet's."""
    ceilings: CeilingsSchema | None
    """Measured on this very machine."""


class MachineList(Listing):
    """The machine with the newest run first."""

    items: list[MachineSchema]


@operation(bp, "/machines", question=Paged, answer=MachineList, tag="Machines")
def index(project: str, asked: Paged) -> MachineList:
    """Machines, the one with the newest run first: cards, limits, and how old the newest data is."""
    found, place = listing(queries.machines(store(), project_or_404(project).name), asked)
    return MachineList(items=[_schema(each) for each in found], **place)


def _schema(machine: Machine) -> MachineSchema:
    return MachineSchema(
        name=machine.name,
        gpu=machine.gpu,
        cpu=machine.cpu,
        runs=machine.runs,
        newest_run=machine.newest_run,
        newest_commit=commit_schema(machine.newest_commit) if machine.newest_commit else None,
        cards=[CardSchema(uuid=card.uuid, runs=card.runs, newest_run=card.newest_run) for card in machine.gpus],
        peaks=ceilings_schema(machine.limits.peaks),
        ceilings=ceilings_schema(machine.limits.measured),
    )


def ceilings_schema(limits: Ceilings | None) -> CeilingsSchema | None:
    """One source's limits."""
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
