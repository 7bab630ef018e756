"""Buffer of new points of many files, to write one chunk per series instead of one per file."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, update

from . import schema
from .chunks import ARRAYS, Columns, Ints, SampleColumns
from .packed_entries import PackedEntries, number_reasons
from .points import add_points, add_samples, batches
from .statements import id_in

_UPDATED_AT_ONCE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPoint:
    series: int
    commit: int
    run: int
    value: float | None
    q25: float | None
    q75: float | None
    sample_count: int | None
    status: int
    reason: str | None
    samples: tuple[float, ...] = ()


class PointBuffer:
    """Collects points that are not stored yet. Use one in a transaction, and flush it before the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reasons: dict[str, int] = {}
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._samples: list[NDArray[np.float64]] = []
        self._commits: set[int] = set()

    def holds(self, commit: int) -> bool:
        """Whether points of the commit are not stored yet."""
        return commit in self._commits

    def add_file(self, series: Ints, commit: int, run: int, values: PackedEntries) -> int:
        """Add every value of a file with one run, the first of each series; return their number."""
        part = {name: getattr(values, name) for name in ("value", "q25", "q75", "count", "status", "kept")}
        part |= {"series": series, "commit": np.full(len(series), commit), "run": np.full(len(series), run)}
        part["reason"] = self._renumbered(values.reason, values.reasons)
        samples = values.samples
        distinct, first = np.unique(series, return_index=True)
        if len(distinct) < len(series):
            first.sort()
            samples = samples[np.repeat(np.isin(np.arange(len(series)), first), values.kept)]
            part = {name: column[first] for name, column in part.items()}
        self._parts.append(part)
        self._samples.append(samples)
        self._commits.add(commit)
        return len(distinct)

    def add(self, points: Sequence[NewPoint]) -> None:
        if not points:
            return
        reason, reasons = number_reasons(point.reason for point in points)
        self._parts.append(
            {
                "series": np.array([point.series for point in points]),
                "commit": np.array([point.commit for point in points]),
                "run": np.array([point.run for point in points]),
                "value": np.array([point.value for point in points], dtype=np.float64),  # None gives NaN
                "q25": np.array([point.q25 for point in points], dtype=np.float64),
                "q75": np.array([point.q75 for point in points], dtype=np.float64),
                "count": np.array([-1 if point.sample_count is None else point.sample_count for point in points]),
                "status": np.array([point.status for point in points]),
                "kept": np.array([len(point.samples) for point in points]),
                "reason": self._renumbered(reason, reasons),
            }
        )
        self._samples.append(np.array([sample for point in points for sample in point.samples], dtype=np.float64))
        self._commits.update(point.commit for point in points)

    def flush(self) -> None:
        """Write the added points; their series become stale."""
        if not self._parts:
            return
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        samples = np.concatenate(self._samples)
        self._parts, self._samples, self._commits = [], [], set()
        if not len(columns["series"]):  # files without any value
            return
        series = sorted(set(columns["series"].tolist()))  # numpy.unique would load masked arrays for it
        # Samples first: adding points joins the short chunks of both.
        add_samples(self._connection, _samples_by_series(columns, samples))
        order = np.argsort(columns["series"], kind="stable")
        ordered = Columns(**{name: columns[name][order] for name in ARRAYS}, reasons=tuple(self._reasons))
        add_points(self._connection, _by_series(columns["series"][order], ordered))
        mark_stale(self._connection, series)

    def _renumbered(self, reason: Ints, reasons: Sequence[str]) -> Ints:
        if not reasons:
            return reason
        codes = [self._reasons.setdefault(each, len(self._reasons) + 1) for each in reasons]
        return np.array([0, *codes])[reason]


def mark_stale(connection: Connection, series: Sequence[int]) -> None:
    """Mark series for analysis; a running analysis of them is rejected."""
    table = schema.series
    for batch in batches(series, _UPDATED_AT_ONCE):
        chosen = id_in(connection, table.c.id, batch)
        connection.execute(update(table).where(chosen).values(stale=True, revision=table.c.revision + 1))


def _by_series(series: Ints, ordered: Columns) -> Iterator[tuple[int, Columns]]:
    for start, end in _groups(series):
        yield int(series[start]), ordered.take(slice(start, end))


def _samples_by_series(
    columns: dict[str, NDArray[Any]], samples: NDArray[np.float64]
) -> Iterator[tuple[int, SampleColumns]]:
    if not len(samples):
        return
    starts = np.cumsum(columns["kept"]) - columns["kept"]
    have = np.flatnonzero(columns["kept"])
    order = have[np.argsort(columns["series"][have], kind="stable")]
    series, counts = columns["series"][order], columns["kept"][order]
    ends = np.cumsum(counts)
    # The index of each sample in the old order: the start of its point there, and its offset within the point.
    index = np.repeat(starts[order] - (ends - counts), counts) + np.arange(ends[-1])
    reordered = samples[index]
    for start, end in _groups(series):
        yield (
            int(series[start]),
            SampleColumns(
                commit=columns["commit"][order[start:end]],
                run=columns["run"][order[start:end]],
                count=counts[start:end],
                samples=reordered[ends[start] - counts[start] : ends[end - 1]],
            ),
        )


def _groups(numbers: Ints) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal numbers."""
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return itertools.pairwise(edges)
