"""Entries of a result file as columns, for transfer between processes and for writing: faster than records.

A sequence of `Entry`, created on access.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..model.result_file import Entry, Value
from .chunks import Floats, Ints
from .statements import STATUS_CODES, STATUS_OF_CODE


class EntryHead(NamedTuple):
    """An entry without its values, which are at `start` to `end` in the columns.

    A tuple, because a file has hundreds, and other records take six times as long to pickle.
    """

    benchmark: str
    started_ms: int | None
    duration_s: float
    mark: str
    start: int
    end: int
    choices: tuple[tuple[str, ...], ...]  # of each parameter; each combination has a value, the last varies fastest
    listed: tuple[tuple[str, ...], ...] | None = None  # otherwise the parameters of each value

    @property
    def combinations(self) -> tuple[tuple[str, ...], ...]:
        """The parameters of each value."""
        return tuple(itertools.product(*self.choices)) if self.listed is None else self.listed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedEntries(Sequence[Entry]):
    """A file's entries; the arrays have one element for each value of all entries."""

    heads: tuple[EntryHead, ...]
    value: Floats  # NaN: no number
    q25: Floats  # NaN: unknown
    q75: Floats
    count: Ints  # type: ignore[assignment]  # of samples; -1: unknown; hides Sequence.count
    status: Ints  # statements.STATUS_CODES
    reason: Ints  # index in `reasons`, from one; 0: none
    reasons: tuple[str, ...]
    kept: Ints  # number of stored samples of each value
    samples: Floats  # of all values, concatenated

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(index, slice):
            return tuple(self[n] for n in range(*index.indices(len(self))))
        head = self.heads[index]
        first = int(self.kept[: head.start].sum())
        slices = itertools.pairwise(itertools.accumulate(self.kept[head.start : head.end].tolist(), initial=first))
        return Entry(
            benchmark=head.benchmark,
            started_ms=head.started_ms,
            duration_s=head.duration_s,
            mark=head.mark,
            values=tuple(
                self._value(number, parameters, where)
                for number, parameters, where in zip(
                    range(head.start, head.end), head.combinations, slices, strict=True
                )
            ),
        )

    def _value(self, number: int, parameters: tuple[str, ...], where: tuple[int, int]) -> Value:
        reason, count = int(self.reason[number]), int(self.count[number])
        return Value(
            parameters=parameters,
            status=STATUS_OF_CODE[int(self.status[number])],
            reason=self.reasons[reason - 1] if reason else None,
            value=number_or_none(self.value[number]),
            q25=number_or_none(self.q25[number]),
            q75=number_or_none(self.q75[number]),
            sample_count=count if count >= 0 else None,
            samples=tuple(self.samples[slice(*where)].tolist()),
        )


def pack(entries: Sequence[Entry]) -> PackedEntries:
    """Convert entries to columns, unless they are already."""
    if isinstance(entries, PackedEntries):
        return entries
    heads, start = [], 0
    for entry in entries:
        end = start + len(entry.values)
        heads.append(
            EntryHead(
                benchmark=entry.benchmark,
                started_ms=entry.started_ms,
                duration_s=entry.duration_s,
                mark=entry.mark,
                start=start,
                end=end,
                choices=(),
                listed=tuple(value.parameters for value in entry.values),
            )
        )
        start = end
    values = [value for entry in entries for value in entry.values]
    reason, reasons = number_reasons(value.reason for value in values)
    return PackedEntries(
        heads=tuple(heads),
        value=_floats(value.value for value in values),
        q25=_floats(value.q25 for value in values),
        q75=_floats(value.q75 for value in values),
        count=_ints(-1 if value.sample_count is None else value.sample_count for value in values),
        status=_ints(STATUS_CODES[value.status] for value in values),
        reason=reason,
        reasons=reasons,
        kept=_ints(len(value.samples) for value in values),
        samples=np.array([sample for value in values for sample in value.samples], dtype=np.float64),
    )


def number_reasons(reasons: Iterable[str | None]) -> tuple[Ints, tuple[str, ...]]:
    """The number of each reason in the list of distinct reasons, from one; 0 for none."""
    number_of: dict[str, int] = {}
    numbers = _ints(0 if reason is None else number_of.setdefault(reason, len(number_of) + 1) for reason in reasons)
    return numbers, tuple(number_of)


def number_or_none(number: float) -> float | None:
    """A number of a column; None for NaN."""
    return None if math.isnan(number) else float(number)


def _floats(numbers: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if number is None else number for number in numbers], dtype=np.float64)


def _ints(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(numbers, dtype=np.int64)
