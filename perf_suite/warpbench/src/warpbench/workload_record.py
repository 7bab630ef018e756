"""A workload as a context file's line. No torch here."""

from .records import WorkloadRecord
from .workload import Workload


def workload_record(run: str, benchmark: str, workload: Workload) -> WorkloadRecord:
    """The record of `workload` in the run of this name, measured under the asv class `benchmark`."""
    return WorkloadRecord(
        run=run,
        benchmark=benchmark,
        operator=workload.operator,
        workload=workload.name,
        parameters=workload.parameters,
        dtype=workload.products,
        flops=workload.cost.flops,
        bytes=workload.cost.bytes,
        kernels=workload.kernels,
        baselines=workload.baselines,
        controls=workload.controls,
    )
