"""Cache of values computed from the store, each valid until the data of its project change.

Every transaction that changes data of a project raises the project's generation, a number in the database, before it
commits. A reader reads the generation first and the data afterwards, so a cached value is at least as new as the
generation it is stored with. It does not matter which process or server wrote.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, func, select, text

from . import schema
from .statements import insert_or_add

Value = TypeVar("Value")
ROW_BYTES = 300  # of a typical record, with its share of common series and commits
_SMALL = 1000  # bytes of a value without a stated size, and of an entry without its value
_CAPACITY = 320 * 2**20  # bytes
_ALL_GENERATIONS = select(func.sum(schema.generation.c.number))
_GENERATION = select(schema.generation.c.number).where(schema.generation.c.project == bindparam("project"))


def generation(connection: Connection, project: str | None) -> int:
    """Number of changes of a project's data; None: of all projects."""
    if project is None:
        return int(connection.execute(_ALL_GENERATIONS).scalar() or 0)
    return int(connection.execute(_GENERATION, {"project": project}).scalar() or 0)


def raise_generation(connection: Connection, project: str) -> None:
    """Call as the last statement of the transaction that changes data of a project."""
    insert_or_add(connection, schema.generation, {"project": project, "number": 1})


def rows_changed(connection: Connection) -> int:
    """A number that grows when a transaction changes rows."""
    if connection.dialect.name == "postgresql":  # the transaction gets its id with its first change
        return int(connection.execute(text("SELECT txid_current_if_assigned()")).scalar() or 0)
    return int(connection.connection.driver_connection.total_changes)  # type: ignore[union-attr]


class Cache:
    """LRU cache by key, each value of one generation. Thread-safe; a value is computed once for all waiting threads."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._used = 0
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(
        self,
        key: Hashable,
        generation: Hashable,
        compute: Callable[[], Value],
        size: Callable[[Value], int] | None = None,
    ) -> Value:
        """The value of a key in a generation that was read before this call. `size`: its bytes."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.generation != generation:
                self._drop(key)
                entry = self._entries[key] = _Entry(generation)
            self._entries.move_to_end(key)
        with entry.lock:
            if not entry.is_computed:
                try:
                    entry.value = compute()
                except BaseException:
                    with self._lock:
                        if self._entries.get(key) is entry:
                            self._drop(key)
                    raise
                entry.is_computed = True
                self._admit(key, entry, _SMALL + (size(entry.value) if size is not None else 0))
            value: Value = entry.value
            return value

    def _admit(self, key: Hashable, entry: "_Entry", size: int) -> None:
        """Count a computed value and evict others; a value larger than the capacity is not cached."""
        with self._lock:
            if self._entries.get(key) is not entry:
                return
            entry.size = size
            self._used += size
            if size > self._capacity:
                self._drop(key)
            while self._used > self._capacity:
                self._drop(next(iter(self._entries)))

    def _drop(self, key: Hashable) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._used -= entry.size


class _Entry:
    __slots__ = ("generation", "is_computed", "lock", "size", "value")

    def __init__(self, generation: Hashable) -> None:
        self.generation = generation
        self.lock = Lock()
        self.is_computed = False
        self.size = 0
        self.value: Any = None
