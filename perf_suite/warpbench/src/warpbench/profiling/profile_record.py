"""From Nsight Compute's kernels to the record kept of them. No torch here."""

import re
from collections.abc import Sequence

from ..records import ProfiledKernel, ProfileRecord
from ..workload import Workload
from . import counters
from .counters import Spellings
from .nsight_compute import KernelRow

_SECONDS = {
    "ns": 1e-9,
    "nsecond": 1e-9,
    "us": 1e-6,
    "usecond": 1e-6,
    "ms": 1e-3,
    "msecond": 1e-3,
    "s": 1.0,
    "second": 1.0,
}
# Nsight Compute 2025.3 loses the "<" of "<unnamed>".
_BEFORE_THE_NAME = re.compile(r"(void )?((\w+|\(anonymous namespace\)|<unnamed>|unnamed>)::)*")


def profile_record(
    run: str,
    benchmark: str,
    workload: Workload,
    implementation: str,
    profiler: str,
    backend: str | None,
    rows: Sequence[KernelRow],
) -> ProfileRecord:
    """The record of one call; a counter that this GPU does not have is None or missing, never zero."""
    kernels = tuple(_kernel(row) for row in rows)
    bytes_known = [kernel.dram_bytes for kernel in kernels if kernel.dram_bytes is not None]
    return ProfileRecord(
        run=run,
        benchmark=benchmark,
        operator=workload.operator,
        workload=workload.name,
        implementation=implementation,
        profiler=profiler,
        backend=backend,
        cache="cold",  # nsight_compute.py has every kernel's caches flushed
        dram_bytes=sum(bytes_known) if kernels and len(bytes_known) == len(kernels) else None,
        kernels=kernels,
    )


def function_name(signature: str) -> str:
    """The kernel's own name, as compiled and measurement records have it: no namespaces, types or arguments."""
    name = _BEFORE_THE_NAME.sub("", signature, count=1)
    return re.split(r"[<(]", name, maxsplit=1)[0].strip() or signature


def _kernel(row: KernelRow) -> ProfiledKernel:
    typed = {name for quantity in counters.QUANTITIES for spelling in quantity for name in spelling}
    return ProfiledKernel(
        name=function_name(row.signature),
        signature=row.signature,
        duration_s=_seconds(row),
        dram_bytes=_quantity(row, counters.DRAM_BYTES),
        l2_bytes=_quantity(row, counters.L2_BYTES),
        l1_bytes=_quantity(row, counters.L1_BYTES),
        occupancy=_share(_quantity(row, counters.OCCUPANCY)),
        tensor_pipe=_share(_quantity(row, counters.TENSOR_PIPE)),
        stalls=_stalls(row),
        counters={
            name: row.counters[name]
            for name in counters.ASKED
            if name in row.counters and name not in typed and not name.startswith(counters.STALL_PREFIX)
        },
    )


def _quantity(row: KernelRow, spellings: Spellings) -> float | None:
    for names in spellings:
        if all(name in row.counters for name in names):
            return sum(row.counters[name] for name in names)
    return None


def _seconds(row: KernelRow) -> float | None:
    duration = _quantity(row, counters.DURATION)
    scale = _SECONDS.get(row.units.get(counters.DURATION[0][0], ""))
    return None if duration is None or scale is None else duration * scale


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _stalls(row: KernelRow) -> dict[str, float]:
    """Largest first, zeros and the issuing warp itself left out."""
    stalls = {
        name.removeprefix(counters.STALL_PREFIX).removesuffix(counters.STALL_SUFFIX): value
        for name, value in row.counters.items()
        if name.startswith(counters.STALL_PREFIX) and name.endswith(counters.STALL_SUFFIX) and value > 0
    }
    stalls.pop(counters.SELECTED, None)
    return dict(sorted(stalls.items(), key=lambda item: -item[1]))
