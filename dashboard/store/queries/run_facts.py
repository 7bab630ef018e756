"""Card, driver and libraries of each run of a machine, kept between requests: they stand in long JSON texts."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.columns import Ints
from warpwatch.dashboard.store.machine_marks import RunFacts
from warpwatch.dashboard.store.store import Store


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
        run = tables.run
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
