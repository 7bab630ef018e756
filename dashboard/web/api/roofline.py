"""`/api/projects/<project>/roofline`: how close each kernel comes to what its machine can do."""

from typing import ClassVar

from flask import Blueprint, abort

from ...model.machine import RooflinePoint
from ...model.schema import Schema, SeriesSchema, series_schema
from ...store import queries
from ..request_context import project_or_404, store
from .machines import CeilingsSchema, ceilings_schema
from .operation import operation
from .query_params import Table, Text

bp = Blueprint("api_roofline", __name__, url_prefix="/api/projects/<project:project>")


class RooflineQuestion(Table):
    """Whose."""

    machine: Text = ""
    """The machine with the newest data where none is named."""


class RooflinePointSchema(Schema):
    """One workload and implementation at its newest commit."""

    series: SeriesSchema
    operator: str
    dtype: str
    latency_s: float | None
    flop: float | None
    """Of one call."""
    least_bytes: float | None
    """That one call must move."""
    intensity_flop_per_byte: float | None
    """Over the least bytes."""
    measured_intensity_flop_per_byte: float | None
    """Over the bytes that a profiler saw move through DRAM."""
    throughput_flop_per_s: float | None
    bandwidth_bytes_per_s: float | None
    speed_of_light_of_peak: float | None
    """The shortest latency that the datasheet allows as a share of ours."""
    speed_of_light_of_ceiling: float | None
    """The same by what was measured on the card that ran it."""
    card: str | None
    """The physical GPU; its ceilings stand in `ceilings_of_cards`."""
    commit: str


class CeilingsOfCard(Schema):
    """What one physical GPU was measured to do."""

    card: str | None
    ceilings: CeilingsSchema


class RooflineAnswer(Schema):
    """One machine's limits and the points under them; baselines are among them."""

    csv_rows: ClassVar[str] = "points"

    machine: str
    machines: list[str]
    """All that have a roofline."""
    peaks: CeilingsSchema | None
    """The datasheet's."""
    ceilings: CeilingsSchema | None
    """Measured on this very machine, by its newest run."""
    ceilings_of_cards: list[CeilingsOfCard]
    """Measured on the cards that ran the points: of these their shares are."""
    points: list[RooflinePointSchema]


@operation(bp, "/roofline", question=RooflineQuestion, answer=RooflineAnswer, tag="Overview")
def show(project: str, asked: RooflineQuestion) -> RooflineAnswer:
    """One machine's ceilings, and every workload and implementation under them.

    404 where no machine of the project has known limits, as in a project that records no FLOP and byte counts.
    """
    found = queries.rooflines(store(), project_or_404(project).name)
    chosen = next((each for each in found if asked.machine in ("", each.machine.name)), None)
    if chosen is None:
        abort(404, "There is no such roofline: no ceilings or workloads were recorded.")
    return RooflineAnswer(
        machine=chosen.machine.name,
        machines=[each.machine.name for each in found],
        peaks=ceilings_schema(chosen.machine.limits.peaks),
        ceilings=ceilings_schema(chosen.machine.limits.measured),
        ceilings_of_cards=[
            CeilingsOfCard(card=card, ceilings=schema)
            for card, ceilings in chosen.measured
            if (schema := ceilings_schema(ceilings)) is not None
        ],
        points=[_schema(point) for point in chosen.points],
    )


def _schema(point: RooflinePoint) -> RooflinePointSchema:
    light = point.speed_of_light
    return RooflinePointSchema(
        series=series_schema(point.series),
        operator=point.workload.operator,
        dtype=point.workload.dtype,
        latency_s=point.latency_s,
        flop=point.workload.flops,
        least_bytes=point.workload.bytes,
        intensity_flop_per_byte=point.intensity,
        measured_intensity_flop_per_byte=point.measured_intensity,
        throughput_flop_per_s=point.flop_rate,
        bandwidth_bytes_per_s=point.bandwidth_bps,
        speed_of_light_of_peak=light.of_peak,
        speed_of_light_of_ceiling=light.of_ceiling,
        card=point.gpu,
        commit=point.commit.hash,
    )
