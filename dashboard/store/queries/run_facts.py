"""Card, driver and libraries of each run of a machine, kept between requests: they stand in long JSON texts."""

import threading
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.machine_marks import RunFacts
from warpwatch.dashboard.store.store import Store


class _OfMachine:
    """What this process has read of one machine's runs."""

    def __init__(self) -> None:
        self._facts: dict[int, RunFacts] = {}
        self._newest: tuple[int, str] | None = None  # id and name of the newest run read
        self._lock = threading.Lock()

    def read(self, connection: Connection, machine: int) -> dict[int, RunFacts]:
        run = tables.run
        with self._lock:
            if self._newest is not None:
                number, name = self._newest
                there = connection.execute(
                    select(run.c.name).where(run.c.id == number, run.c.machine_id == machine)
                ).scalar()
                if there != name:  # the project was removed, and its ids belong to another
                    self._facts, self._newest = {}, None
            gpu, software = run.c.context["gpu"], run.c.context["software"]
            columns = [gpu["name"], gpu["driver"], *(software[name] for name in ("torch", "cuda", "cudnn", "triton"))]
            query = select(run.c.id, run.c.name, *(column.as_string() for column in columns)).order_by(run.c.id)
            query = query.where(run.c.machine_id == machine, run.c.id > (self._newest[0] if self._newest else 0))
            facts = dict(self._facts)
            for number, name, *told in connection.execute(query):
                facts[number], self._newest = RunFacts(*told), (number, name)
            self._facts = facts
            return facts


_known: WeakKeyDictionary[Store, dict[int, _OfMachine]] = WeakKeyDictionary()


def run_facts(store: Store, connection: Connection, machine: int) -> dict[int, RunFacts]:
    """By run's id, all runs of a machine. The caller must not change it."""
    return _known.setdefault(store, {}).setdefault(machine, _OfMachine()).read(connection, machine)
