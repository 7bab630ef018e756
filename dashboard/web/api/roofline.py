"""`/api/projects/<project>/roofline`: kernels relative to the limits of a machine."""

from typing import ClassVar

from flask import Blueprint, abort

from ...model.machine import RooflinePoint
from ...model.schema import Schema, SeriesSchema
from ...store import queries
from ..request_context import project_or_404, store
from .machines import CeilingsSchema, ceilings_schema
from .operation import CsvParams, Text, operation

bp = Blueprint("api_roofline", __name__, url_prefix="/api/projects/<project:project>")


class RooflineParams(CsvParams):
    """The machine."""

    machine: Text = ""
    """Default: the machine with the newest data."""


class RooflinePointSchema(Schema):
    """One workload and implementation at its newest commit."""

    series: SeriesSchema
    operator: str
    dtype: str
    latency_s: float | None
    flop: float | None
    """FLOP of one call."""
    least_bytes: float | None
    """Bytes that one call must move at least."""
    intensity_flop_per_byte: float | None
    """FLOP per least byte."""
    measured_intensity_flop_per_byte: float | None
    """FLOP per byte of DRAM traffic, measured by a profiler."""
    throughput_flop_per_s: float | None
    bandwidth_bytes_per_s: float | None
    speed_of_light_of_peak: float | None
    """Shortest latency by the datasheet, as a fraction of ours."""
    speed_of_light_of_ceiling: float | None
    """The same by the measured ceilings of the GPU."""
    energy_j: float | None
    """Energy of one call at the commit, J; null where not measured."""
    gpu: str | None
    """UUID; `ceilings_of_gpus` has its ceilings."""
    commit: str


class GpuCeilingsSchema(Schema):
    """Measured ceilings of one physical GPU."""

    gpu: str | None
    ceilings: CeilingsSchema


class RooflineResponse(Schema):
    """Limits of one machine and the points below them, baselines included."""

    csv_rows: ClassVar[str] = "points"

    machine: str
    machines: list[str]
    """All machines with a roofline."""
    peaks: CeilingsSchema | None
    """From the datasheet."""
    ceilings: CeilingsSchema | None
    """As measured by the machine's newest run."""
    ceilings_of_gpus: list[GpuCeilingsSchema]
    """Ceilings of the GPUs that measured the points."""
    points: list[RooflinePointSchema]


@operation(bp, "/roofline", params=RooflineParams, response=RooflineResponse, tag="Overview")
def show(project: str, params: RooflineParams) -> RooflineResponse:
    """Get the roofline of a machine.

    Its ceilings, and every workload and implementation below them. 404 if no machine has known limits, as in a project
    that records no FLOP and byte counts.
    """
    rooflines = queries.rooflines(store(), project_or_404(project).name)
    roofline = next((row for row in rooflines if params.machine in ("", row.machine.name)), None)
    if roofline is None:
        abort(404, "There is no roofline: no ceilings or workloads were recorded.")
    return RooflineResponse(
        machine=roofline.machine.name,
        machines=[row.machine.name for row in rooflines],
        peaks=ceilings_schema(roofline.machine.limits.peaks),
        ceilings=ceilings_schema(roofline.machine.limits.measured),
        ceilings_of_gpus=[
            GpuCeilingsSchema(gpu=gpu, ceilings=schema)
            for gpu, ceilings in roofline.measured
            if (schema := ceilings_schema(ceilings)) is not None
        ],
        points=[_schema(point) for point in roofline.points],
    )


def _schema(point: RooflinePoint) -> RooflinePointSchema:
    light = point.speed_of_light
    return RooflinePointSchema.of(
        point,
        operator=point.workload.operator,
        dtype=point.workload.dtype,
        flop=point.workload.flops,
        least_bytes=point.workload.bytes,
        intensity_flop_per_byte=point.intensity,
        measured_intensity_flop_per_byte=point.measured_intensity,
        throughput_flop_per_s=point.flop_rate,
        bandwidth_bytes_per_s=point.bandwidth_bps,
        speed_of_light_of_peak=light.of_peak,
        speed_of_light_of_ceiling=light.of_ceiling,
        commit=point.commit.hash,
    )
