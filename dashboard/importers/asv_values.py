"""The values of an asv result file, gathered in lists and turned into columns at once: a file has thousands."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpwatch.dashboard.store.columns import Floats, Ints
from warpwatch.dashboard.store.packed import PackedEntries, number_reasons
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES

_MOST_SAMPLES = 2**31 - 1  # what a benchmark may say that it took


class ValueLists:
    """Takes the values of one benchmark after the other, as they stand in the file."""

    def __init__(self) -> None:
        self._results: list[Any] = []
        self._q25: list[Any] = []
        self._q75: list[Any] = []
        self._repeat: list[Any] = []
        self._kept: list[int] = []
        self._samples: list[Any] = []

    def add(
        self, result: Sequence[Any], q25: Sequence[Any] | None, q75: Sequence[Any] | None,
        repeat: Sequence[Any] | None, samples: Sequence[Any] | None,
    ) -> int:  # fmt: skip
        """Adds a benchmark's columns, those of it that it has; returns the place of its first value."""
        start, absent = len(self._results), [None] * len(result)
        self._results.extend(result)
        self._q25.extend(q25 or absent)
        self._q75.extend(q75 or absent)
        self._repeat.extend(repeat or absent)
        if samples is None:
            self._kept.extend([0] * len(result))
            return start
        for taken in samples:
            kept = taken if isinstance(taken, list) else []
            if not all(type(sample) is float for sample in kept):
                kept = [number for number in map(as_float, kept) if number is not None and math.isfinite(number)]
            self._kept.append(len(kept))
            self._samples.extend(kept)
        return start

    @property
    def samples(self) -> int:
        """How many samples there are so far."""
        return len(self._samples)

    def packed(self) -> PackedEntries:
        """All of it in columns, without heads. What is no number has a status and a reason instead."""
        value = _floats(self._results)
        status = np.zeros(len(value), dtype=np.int64)
        reason = np.zeros(len(value), dtype=np.int64)
        reasons: tuple[str, ...] = ()
        bad = np.flatnonzero(~np.isfinite(value))
        if len(bad):
            absent = [_absence(self._results[number]) for number in bad.tolist()]
            status[bad] = [STATUS_CODES[its_status] for its_status, _ in absent]
            reason[bad], reasons = number_reasons(said for _, said in absent)
        kept, samples = np.array(self._kept, dtype=np.int64), np.array(self._samples, dtype=np.float64)
        if kept[bad].any():
            samples = samples[np.repeat(status == 0, kept)]
            kept[bad] = 0
        counts = _integers(self._repeat)
        counts[kept > 0] = kept[kept > 0]
        counts[bad] = -1
        q25, q75 = (_floats(column) for column in (self._q25, self._q75))
        for column in (q25, q75):
            column[~np.isfinite(column)] = np.nan
        for column in (value, q25, q75):
            column[bad] = np.nan
        return PackedEntries(
            heads=(), value=value, q25=q25, q75=q75, count=counts, status=status, reason=reason,
            reasons=reasons, kept=kept, samples=samples,
        )  # fmt: skip


def as_float(raw: Any) -> float | None:
    """A float from a number or a number's text ("1.5e-6", "NaN"); None from anything else."""
    if isinstance(raw, (int, float, str)):
        try:
            return float(raw)
        except (ValueError, OverflowError):
            return None
    return None


def as_integer(raw: Any) -> int | None:
    """The whole part of a finite number or its text; None from anything else."""
    value = as_float(raw)
    return None if value is None or not math.isfinite(value) else int(value)


def _absence(raw: Any) -> tuple[Status, str]:
    """Why there is no number."""
    if raw is None:
        return Status.FAILED, "the benchmark failed"
    value = as_float(raw)
    if value is None:
        seen = str(raw)[:80].replace("\x00", "").encode("utf-8", "replace").decode()
        return Status.INVALID, f"not a number: {seen}"
    if math.isnan(value):
        return Status.UNAVAILABLE, "not available here"
    return Status.INVALID, "not finite"


def _floats(raw: list[Any]) -> Floats:
    """NaN for what is no number."""
    try:
        found = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found.ndim != 1:
        numbers = map(as_float, raw)
        found = np.array([math.nan if number is None else number for number in numbers], dtype=np.float64)
    return found


def _integers(raw: list[Any]) -> Ints:
    """-1 for what is no count."""
    found = _floats(raw)
    found[~((found >= 0) & (found <= _MOST_SAMPLES))] = -1
    return found.astype(np.int64)
