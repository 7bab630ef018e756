"""The end of a plain history with what the analysis found of it: all that is needed when a few values more come.

It reaches back as far as the next summary does, 40 commits or 30 days, and to the values that tell whether a series
goes on as it was. A history with more commits in that time than fit in has no tail.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.statistics.changepoint import Changepoint
from warpwatch.dashboard.statistics.continuation import LOOK_BACK
from warpwatch.dashboard.statistics.detection import counted_threshold
from warpwatch.dashboard.statistics.summary import SPARKLINE_COMMITS, since_ms
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.columns import Floats, Ints
from warpwatch.dashboard.store.plain_history import PlainHistory
from warpwatch.dashboard.store.rows import insert_or_replace

_FORMAT = 1
_HEADER = struct.Struct("<BBBBIIIIIdI")
_MOST = 400  # commits
_FEWEST = 16  # with a number
_WORTH_CUTTING = 16  # commits


class Rule(IntEnum):
    """How the detector takes a series."""

    MEASURED = 0
    COUNTED = 1  # every change is one
    WHOLE = 2  # measured, but in whole numbers: it may become counted if it stands still


class Tail(NamedTuple):
    """The newest commits of a history of one card, in the project's order."""

    commit: Ints  # ids
    value: Floats  # NaN: no number
    is_all: bool  # there is nothing before
    card: str | None
    rule: Rule
    total: int  # numbers in the whole history
    still: int  # neighbours among them that are equal
    level: int  # numbers since the last change
    looked_at: int  # numbers when the detector saw them
    step_commit: int  # of the last change; 0: none
    step: float  # its magnitude

    @property
    def numbers(self) -> Ints:
        """The places of the values that are numbers."""
        return (~np.isnan(self.value)).nonzero()[0]

    def shorter(self, place: int) -> "Tail":
        """Without what the next ones need no more; `place` is of the commit that the newest is compared with."""
        first = min(place, len(self.value) - SPARKLINE_COMMITS)
        if first >= _WORTH_CUTTING:
            first = min(first, int(self.numbers[-LOOK_BACK:][0]))
        if first < _WORTH_CUTTING:
            return self
        return self._replace(commit=self.commit[first:], value=self.value[first:], is_all=False)


def tail_of(history: PlainHistory, changes: Sequence[Changepoint], metric: Metric) -> Tail | None:
    """The tail of a history and its changes; None if it would be too long, or the history is too short to need one."""
    numbers, points = history.numbers, history.points
    if len(numbers) < _FEWEST:
        return None
    levels = points.value[numbers]
    value = np.full(len(points), np.nan)
    value[numbers] = levels
    last = changes[-1] if changes else None
    whole = Tail(
        commit=points.commit,
        value=value,
        is_all=True,
        card=history.card,
        rule=_rule(levels, metric),
        total=len(numbers),
        still=int(np.count_nonzero(levels[1:] == levels[:-1])),
        level=len(numbers) - (last.index if last is not None else 0),
        looked_at=len(numbers),
        step_commit=int(points.commit[numbers[last.index]]) if last is not None else 0,
        step=last.magnitude if last is not None else 0.0,
    )
    older = numbers[history.date_ms[numbers] <= since_ms(int(history.date_ms[-1]))]
    tail = whole.shorter(int(older[-1]) if len(older) else 0)
    return tail if len(tail.commit) <= _MOST else None


def _rule(levels: Floats, metric: Metric) -> Rule:
    if metric.is_time and not metric.is_exact:
        return Rule.MEASURED
    if counted_threshold(levels.tolist(), metric) is not None:
        return Rule.COUNTED
    return Rule.WHOLE if (levels == np.rint(levels)).all() else Rule.MEASURED


def encode_tail(tail: Tail) -> bytes:
    """The bytes of a tail. Uncompressed: measured values hardly get smaller, and it is read and written often."""
    card = (tail.card or "").encode()
    header = _HEADER.pack(
        _FORMAT, tail.is_all, tail.card is not None, tail.rule, tail.total, tail.still, tail.level, tail.looked_at,
        tail.step_commit, tail.step, len(card),
    )  # fmt: skip
    return header + card + tail.commit.astype("<i4").tobytes() + tail.value.astype("<f8").tobytes()


def decode_tail(data: bytes) -> Tail:
    """The tail of these bytes. Raises ValueError if a newer version wrote them."""
    version, is_all, has_card, rule, count, still, level, looked_at, step_commit, step, length = _HEADER.unpack_from(
        data
    )
    if version != _FORMAT:
        raise ValueError(f"a tail of format {version}; this version reads {_FORMAT}: upgrade warpwatch")
    start = _HEADER.size + length
    commits = (len(data) - start) // 12
    return Tail(
        commit=np.frombuffer(data, dtype="<i4", count=commits, offset=start),
        value=np.frombuffer(data, dtype="<f8", offset=start + 4 * commits),
        is_all=bool(is_all), card=data[_HEADER.size : start].decode() if has_card else None, rule=Rule(rule),
        total=count, still=still, level=level, looked_at=looked_at, step_commit=step_commit, step=step,
    )  # fmt: skip


def write_tails(connection: Connection, tails: Sequence[tuple[int, int, Tail]]) -> None:
    """Writes tails, each with its series and the last run that it saw, in place of those that are there."""
    rows = [{"series_id": number, "last_run": last, "data": encode_tail(tail)} for number, last, tail in tails]
    insert_or_replace(connection, tables.tail, rows)
