"""Profiles for a reader: what the algorithm needs next to what was measured, then each kernel. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..cost import Cost
from ..quantity_text import quantity, share
from ..records import ProfiledKernel, ProfileRecord
from ..workload import Workload
from . import counters

if TYPE_CHECKING:  # asv imports every module of its benchmark folder, also where rich is missing
    from rich.table import Table

_TOP_STALLS = 3
_NOTE = (
    "DRAM counts what crossed while a kernel ran, from flushed caches: what it leaves dirty in the L2 is missing, so "
    "that a write can cost less than the algorithm's bytes, and what the kernel before it left there is read again. "
    "The times are for comparison with each other: a profiler slows what it watches."
)


def traffic_table(workload: Workload, profiles: Sequence[ProfileRecord]) -> Table:
    """A row an implementation: measured DRAM bytes and intensity, and the algorithm's."""
    from rich import box
    from rich.table import Table

    cost = workload.cost
    table = Table(title=f"{workload.operator}/{workload.name}", title_justify="left", box=box.SIMPLE, caption=_NOTE)
    table.caption_justify = "left"
    table.add_column("implementation", no_wrap=True)
    for column in ("kernels", "time", "DRAM", "of algorithm's", "FLOP/byte"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_row("the algorithm", "", "", quantity(cost.bytes, "B"), "", _intensity(cost, cost.bytes))
    for profile in profiles:
        measured = profile.dram_bytes
        table.add_row(
            profile.implementation + (f" ({profile.backend})" if profile.backend else ""),
            str(len(profile.kernels)),
            _quantity(_sum([kernel.duration_s for kernel in profile.kernels]), "s"),
            _quantity(measured, "B"),
            "-" if measured is None else f"{measured / cost.bytes:.2f}×",
            _intensity(cost, measured),
        )
    return table


def kernel_table(profiles: Sequence[ProfileRecord]) -> Table:
    """A row a kernel: bytes and share of peak at each level of memory, occupancy, tensor pipe, stalls."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Each kernel, in the order launched", title_justify="left", box=box.SIMPLE)
    table.add_column("implementation")
    table.add_column("kernel", overflow="fold")
    for column in ("time", "DRAM", "L2", "L1", "SM", "occupancy", "tensor pipe"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("warps wait for", no_wrap=True)
    for profile in profiles:
        for index, kernel in enumerate(profile.kernels):
            table.add_row(
                "" if index else profile.implementation,
                Text(kernel.name),
                _quantity(kernel.duration_s, "s"),
                _level(kernel, kernel.dram_bytes, counters.DRAM_SHARE),
                _level(kernel, kernel.l2_bytes, counters.L2_SHARE),
                _level(kernel, kernel.l1_bytes, counters.L1_SHARE),
                _of_peak(kernel, counters.SM_SHARE),
                _occupancy(kernel),
                "-" if kernel.tensor_pipe is None else share(kernel.tensor_pipe),
                _stalls(kernel),
            )
    table.caption = "Per cent of the peak; occupancy of what registers, shared memory and block size allow."
    table.caption_justify = "left"
    return table


def _level(kernel: ProfiledKernel, moved: float | None, counter: str) -> str:
    return f"{_quantity(moved, 'B')}\n{_of_peak(kernel, counter)}"


def _of_peak(kernel: ProfiledKernel, counter: str) -> str:
    percent = kernel.counters.get(counter)
    return "-" if percent is None else share(percent / 100)


def _occupancy(kernel: ProfiledKernel) -> str:
    if kernel.occupancy is None:
        return "-"
    limit = kernel.counters.get(counters.OCCUPANCY_LIMIT)
    return share(kernel.occupancy) + ("" if limit is None else f"\nof {share(limit / 100)}")


def _stalls(kernel: ProfiledKernel) -> str:
    """The largest, as shares of the time that warps are resident: one warp in `1 + sum` issues, the others wait."""
    total = 1 + sum(kernel.stalls.values())
    top = list(kernel.stalls.items())[:_TOP_STALLS]
    return "\n".join(f"{value / total * 100:.0f} % {reason.replace('_', ' ')}" for reason, value in top) or "-"


def _intensity(cost: Cost, moved: float | None) -> str:
    if not moved:
        return "-"
    intensity = cost.flops / moved
    return f"{intensity:.{0 if intensity >= 100 else 1 if intensity >= 10 else 2}f}"


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return quantity(value, unit) if value else f"0 {unit}"


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
