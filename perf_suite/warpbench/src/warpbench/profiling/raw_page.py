"""Nsight Compute's raw page as CSV: a row of names, a row of units, a row a kernel. No torch here."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass

_KERNEL = "Kernel Name"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One kernel's numbers, by Nsight Compute's own names and in the units of its CSV."""

    signature: str  # as Nsight Compute demangles it
    counters: Mapping[str, float]
    units: Mapping[str, str]


def read_raw_page(text: str) -> tuple[KernelRow, ...]:
    """The kernels in the order they ran, none if the text holds no table; what is no number has no entry.

    Nsight Compute writes its own lines before and behind the table. Raises ValueError for another of its pages.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return ()
    names, units, *rows = list(csv.reader(lines[start:]))
    if _KERNEL not in names or "Metric Name" in names:
        raise ValueError(f"wanted Nsight Compute's raw page (--page raw), got columns {', '.join(names[:15])}")
    return tuple(
        KernelRow(
            signature=row[names.index(_KERNEL)],
            counters={name: float(value) for name, value in zip(names, row, strict=True) if _is_number(value)},
            units=dict(zip(names, units, strict=True)),
        )
        for row in rows
        if len(row) == len(names)
    )


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:  # n/a, or a word
        return False
