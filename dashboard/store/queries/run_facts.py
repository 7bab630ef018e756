"""GPU, driver and libraries of each run, the commits at which they changed, and pairs measured again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, func, select

from ...model.naming import SOFTWARE_NAMES, gpu_name, software_version
from .. import schema
from ..chunks import Ints
from ..engine import Store
from .comparison_pairs import SESSION_GAP_MS

_NAMES = {**SOFTWARE_NAMES, "gpu": "GPU", "driver": "driver"}


class RunFacts(NamedTuple):
    """GPU model and software of a run, which affect all its numbers; None: not recorded."""

    gpu: str | None
    driver: str | None
    torch: str | None
    cuda: str | None
    cudnn: str | None
    triton: str | None


class CommitRun(NamedTuple):
    """A commit of a history with its last run: the number of the run's facts, and the GPU."""

    commit: int
    facts: int
    gpu: str | None


_UNKNOWN = RunFacts(*[None] * len(RunFacts._fields))


def machine_marks(runs: Sequence[CommitRun], facts: Mapping[int, RunFacts]) -> list[tuple[int, str]]:
    """The commits at which GPU, driver or libraries changed, with a description, in the order of the history."""
    marks: list[tuple[int, str]] = []
    before, gpu = _UNKNOWN, None
    for each in runs:
        now = facts.get(each.facts, _UNKNOWN)
        words = [
            f"{_NAMES[name]} {software_version(name, old)} → {software_version(name, new)}"
            for name, old, new in _difference(before, now)
        ]
        if each.gpu is not None and gpu is not None and each.gpu != gpu:
            words.insert(0, f"card {gpu_name(each.gpu)}")
        if words:
            marks.append((each.commit, ", ".join(words)))
        gpu = each.gpu if each.gpu is not None else gpu
        if now is not _UNKNOWN and now != before:
            before = RunFacts(*(new if new is not None else old for old, new in zip(before, now, strict=True)))
    return marks


def _difference(before: RunFacts, after: RunFacts) -> list[tuple[str, Any, Any]]:
    """The facts that both have and that differ: name, before, after."""
    if before == after:
        return []
    pairs = zip(RunFacts._fields, before, after, strict=True)
    return [(name, old, new) for name, old, new in pairs if old is not None and new is not None and old != new]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FactsOfRuns:
    """Facts of each run of a machine; most are equal."""

    runs: Ints  # ids, in order
    number: Ints  # index of each run's facts in `different`
    different: tuple[RunFacts, ...]

    def of(self, runs: Ints) -> Ints:
        return self.number[np.searchsorted(self.runs, runs)]


def run_facts(store: Store, connection: Connection, project: str, machine: int) -> FactsOfRuns:
    """The facts of a machine's runs as this transaction sees them."""
    return store.cached_as_of(connection, project, ("run facts", machine), lambda: _read(connection, machine))


def _read(connection: Connection, machine: int) -> FactsOfRuns:
    run = schema.run
    gpu, software = run.c.context["gpu"], run.c.context["software"]
    columns = [gpu["name"], gpu["driver"], *(software[name] for name in ("torch", "cuda", "cudnn", "triton"))]
    query = select(run.c.id, *(column.as_string() for column in columns)).where(run.c.machine_id == machine)
    rows = connection.execute(query.order_by(run.c.id)).all()
    index_of: dict[RunFacts, int] = {}
    numbers = [index_of.setdefault(RunFacts(*facts), len(index_of)) for _, *facts in rows]
    return FactsOfRuns(
        runs=np.array([row.id for row in rows], dtype=np.int64),
        number=np.array(numbers, dtype=np.int64),
        different=tuple(index_of),
    )


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
