"""GPU, driver and libraries of each run, and the commits at which they changed."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from sqlalchemy import Connection, select

from ...model.naming import cudnn_version, gpu_name
from .. import schema
from ..chunks import Ints
from ..engine import Store

# Where in a history the machine became another one, as its runs tell: another card, driver or library.

_WORDS = {"gpu": "GPU", "driver": "driver", "torch": "PyTorch", "cuda": "CUDA", "cudnn": "cuDNN", "triton": "Triton"}


class RunFacts(NamedTuple):
    """What may move a whole machine's numbers; None where a run does not tell."""

    gpu: str | None
    driver: str | None
    torch: str | None
    cuda: str | None
    cudnn: str | None
    triton: str | None


class Taken(NamedTuple):
    """A commit of a history, what its last run tells (a key of the facts), and the physical card of that run."""

    commit: int
    facts: int
    card: str | None


_UNTOLD = RunFacts(*[None] * len(RunFacts._fields))


def machine_marks(taken: Sequence[Taken], facts: Mapping[int, RunFacts]) -> list[tuple[int, str]]:
    """The commits from which on something is another, and what, in the order of the history."""
    found: list[tuple[int, str]] = []
    told, card = _UNTOLD, None
    for each in taken:
        now = facts.get(each.facts, _UNTOLD)
        words = [
            f"{_WORDS[name]} {_version(name, old)} → {_version(name, new)}" for name, old, new in _difference(told, now)
        ]
        if each.card is not None and card is not None and each.card != card:
            words.insert(0, f"card {gpu_name(each.card)}")
        if words:
            found.append((each.commit, ", ".join(words)))
        card = each.card if each.card is not None else card
        if now is not _UNTOLD and now != told:
            told = RunFacts(*(new if new is not None else old for old, new in zip(told, now, strict=True)))
    return found


def _version(name: str, said: str) -> str:
    return cudnn_version(said) if name == "cudnn" else said


def _difference(before: RunFacts, after: RunFacts) -> list[tuple[str, Any, Any]]:
    """The facts that both tell and that differ: name, before, after."""
    if before == after:
        return []
    pairs = zip(RunFacts._fields, before, after, strict=True)
    return [(name, old, new) for name, old, new in pairs if old is not None and new is not None and old != new]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FactsOfRuns:
    """What each run of a machine tells; most tell the same."""

    runs: Ints  # ids, in order
    number: Ints  # of each run's facts in `different`
    different: tuple[RunFacts, ...]

    def of(self, runs: Ints) -> Ints:
        """The numbers of these runs' facts."""
        return self.number[np.searchsorted(self.runs, runs)]


_NOTHING = FactsOfRuns(runs=np.empty(0, dtype=np.int64), number=np.empty(0, dtype=np.int64), different=())


class _OfMachine:
    """What this process has read of one machine's runs."""

    def __init__(self) -> None:
        self._facts = _NOTHING
        self._newest: tuple[int, str] | None = None  # id and name of the newest run read
        self._lock = threading.Lock()

    def read(self, connection: Connection, machine: int) -> FactsOfRuns:
        run = schema.run
        with self._lock:
            if self._newest is not None:
                number, name = self._newest
                there = connection.execute(
                    select(run.c.name).where(run.c.id == number, run.c.machine_id == machine)
                ).scalar()
                if there != name:  # the project was removed, and its ids belong to another
                    self._facts, self._newest = _NOTHING, None
            gpu, software = run.c.context["gpu"], run.c.context["software"]
            columns = [gpu["name"], gpu["driver"], *(software[name] for name in ("torch", "cuda", "cudnn", "triton"))]
            query = select(run.c.id, run.c.name, *(column.as_string() for column in columns)).order_by(run.c.id)
            query = query.where(run.c.machine_id == machine, run.c.id > (self._newest[0] if self._newest else 0))
            rows = connection.execute(query).all()
            if rows:
                self._newest = rows[-1][0], rows[-1][1]
                self._facts = _with_more(self._facts, rows)
            return self._facts


def _with_more(known: FactsOfRuns, rows: Sequence[Any]) -> FactsOfRuns:
    place = {facts: number for number, facts in enumerate(known.different)}
    numbers = [place.setdefault(RunFacts(*told), len(place)) for _, _, *told in rows]
    return FactsOfRuns(
        runs=np.concatenate((known.runs, [row[0] for row in rows])),
        number=np.concatenate((known.number, numbers)),
        different=tuple(place),
    )


_known: WeakKeyDictionary[Store, dict[int, _OfMachine]] = WeakKeyDictionary()


def run_facts(store: Store, connection: Connection, machine: int) -> FactsOfRuns:
    """Of all runs of a machine."""
    return _known.setdefault(store, {}).setdefault(machine, _OfMachine()).read(connection, machine)
