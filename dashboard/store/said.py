"""What was said of a change when the findings of its machine were judged together, and what it says until then.

A series that is analysed anew keeps what was said of those of its changes that stand at the same commits. A new change
is nobody's yet: it might be the machine's, so no page, report or alert calls it a regression before it is judged.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.verdict import Verdict

SAID = ("kind", "control", "control_share", "control_share_low", "control_share_high", "q_value")
NOTHING_SAID: Mapping[str, Any] = {**dict.fromkeys(SAID), "kind": ChangeKind.UNJUDGED.value}

Judgements = Mapping[tuple[int, int], Mapping[str, Any]]  # by the ids of series and commit


def judgements(connection: Connection, series: Collection[int]) -> Judgements:
    """What is said of the changes of these series."""
    table = tables.changepoint
    rows = connection.execute(
        select(table.c.series_id, table.c.commit_id, *(table.c[name] for name in SAID)).where(
            is_among(connection, table.c.series_id, series)
        )
    )
    return {(row.series_id, row.commit_id): dict(zip(SAID, row[2:], strict=True)) for row in rows}


def verdict_of(kind: str, is_worse: bool) -> Verdict:
    """The verdict on a series whose last step is of a kind: a level that the machine moved has not changed.

    Of what is not judged yet, or may be chance, nothing can be told.
    """
    if kind in {ChangeKind.UNJUDGED.value, ChangeKind.MAY_BE_CHANCE.value}:
        return Verdict.INCONCLUSIVE
    if kind == ChangeKind.MACHINE_STATE.value:
        return Verdict.UNCHANGED
    return Verdict.REGRESSED if is_worse else Verdict.IMPROVED
