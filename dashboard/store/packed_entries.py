"""The entries of a result file in columns: what crosses processes and is written, where a record a value is too slow.

To who asks it is a sequence of `Entry`, each made when asked for.
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
    """What an entry says besides its values, which stand at `start` to `end` in the columns.

    A tuple, as each file has hundreds, and records of other kinds take six times as long from process to process.
    """

    benchmark: str
    started_ms: int | None
    duration_s: float
    mark: str
    start: int
    end: int
    choices: tuple[tuple[str, ...], ...]  # of each parameter: every combination has a value, the last one fastest;
    listed: tuple[tuple[str, ...], ...] | None = None  # or, where that is not so, the parameters of each value

    @property
    def combinations(self) -> tuple[tuple[str, ...], ...]:
        """The parameters of each value."""
        return tuple(itertools.product(*self.choices)) if self.listed is None else self.listed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedEntries(Sequence[Entry]):
    """A file's entries. The arrays have a place for each value of all of them."""

    heads: tuple[EntryHead, ...]
    value: Floats  # NaN: no number
    q25: Floats  # NaN: not known
    q75: Floats
    count: Ints  # type: ignore[assignment]  # of samples; -1: not known. Hides Sequence.count, which nobody asks for
    status: Ints  # rows.STATUS_CODES
    reason: Ints  # place in `reasons` from one on; 0: none
    reasons: tuple[str, ...]
    kept: Ints  # samples that are kept of each value
    samples: Floats  # one value's after the other's

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, place: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(place, slice):
            return tuple(self[n] for n in range(*place.indices(len(self))))
        head = self.heads[place]
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
    """The entries in columns, if they are not."""
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
    """The place of each reason in a list of those that occur, from one on; 0 for none."""
    place: dict[str, int] = {}
    found = _ints(0 if reason is None else place.setdefault(reason, len(place) + 1) for reason in reasons)
    return found, tuple(place)


def number_or_none(number: float) -> float | None:
    """A number of a column, None where it has none."""
    return None if math.isnan(number) else float(number)


def _floats(numbers: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if number is None else number for number in numbers], dtype=np.float64)


def _ints(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(numbers, dtype=np.int64)
