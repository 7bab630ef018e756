"""Pairs of commits that one session measured several times, as `warpwatch runner measure --confirm` does."""

from collections import defaultdict
from typing import NamedTuple

from sqlalchemy import func, select

from .. import schema
from ..engine import Store
from .comparison_pairs import SESSION_GAP_MS

_MOST_PAIRS = 30  # of each machine, the newest: each costs a comparison whenever results arrive


class RemeasuredPair(NamedTuple):
    """A commit and the nearest earlier one that the machine measured several times in the same session."""

    machine: str
    base: str  # full hashes
    head: str
    base_id: int
    head_id: int


class _Remeasured(NamedTuple):
    id: int
    hash: str
    first_ms: int
    last_ms: int


def remeasured_pairs(store: Store, project_id: int, *, runs: int) -> tuple[RemeasuredPair, ...]:
    """Pairs with at least `runs` runs of each commit, on the machines with series to analyse."""
    run, commit, machine, series = schema.run, schema.commit, schema.machine, schema.series
    stale = select(series.c.machine_id).where(series.c.project_id == project_id, series.c.stale)
    query = (
        select(
            machine.c.name,
            commit.c.id,
            commit.c.hash,
            func.min(run.c.started_ms).label("first_ms"),
            func.max(run.c.started_ms).label("last_ms"),
        )
        .join(commit, commit.c.id == run.c.commit_id)
        .join(machine, machine.c.id == run.c.machine_id)
        .where(run.c.project_id == project_id, run.c.machine_id.in_(stale), run.c.started_ms.is_not(None))
        .where(commit.c.position.is_not(None))
        .group_by(machine.c.name, commit.c.id, commit.c.hash, commit.c.position)
        .having(func.count() >= runs)
        .order_by(commit.c.position)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    by_machine: dict[str, list[_Remeasured]] = defaultdict(list)
    for name, *rest in rows:
        by_machine[name].append(_Remeasured(*rest))
    found = []
    for name, commits in by_machine.items():
        pairs = []
        for number, head in enumerate(commits):
            base = next((each for each in reversed(commits[:number]) if _in_one_session(each, head)), None)
            if base is not None:
                pairs.append(RemeasuredPair(name, base.hash, head.hash, base.id, head.id))
        found += pairs[-_MOST_PAIRS:]
    return tuple(found)


def _in_one_session(base: _Remeasured, head: _Remeasured) -> bool:
    """Whether runs of both may be of one session; of a commit measured on several days, perhaps not."""
    return base.first_ms - SESSION_GAP_MS <= head.last_ms and head.first_ms - SESSION_GAP_MS <= base.last_ms
