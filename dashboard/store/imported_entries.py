"""Which of asv's benchmark entries are in: the marks of each commit, machine and environment, by benchmark.

A mark is the entry's start and a digest of its values. asv re-saves a file with every benchmark it ever held, so an old
entry comes again and again, and a new mark is a new run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, select

from . import schema
from .chunks import codec
from .statements import insert_or_replace

Key = tuple[int, int, int]  # commit, machine, environment
_MANY = 8  # questions from which it is cheaper to know which keys have marks


class ImportedEntries:
    """The marks, read when first asked for. Use one a transaction, and save it before that ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[Key, dict[str, list[str]]] = {}
        self._changed: set[Key] = set()
        self._asked = 0
        self._stored: set[Key] | None = None  # keys that have marks, once it is worth knowing all

    def at(self, key: Key) -> Mapping[str, Sequence[str]]:
        """What is in, by benchmark."""
        if key not in self._known:
            self._known[key] = self._read(key) if self._has(key) else {}
        return self._known[key]

    def _has(self, key: Key) -> bool:
        self._asked += 1
        if self._stored is None and self._asked > _MANY:
            table = schema.recorded
            rows = self._connection.execute(select(table.c.commit_id, table.c.machine_id, table.c.environment_id))
            self._stored = {tuple(row) for row in rows}
        return self._stored is None or key in self._stored

    def _read(self, key: Key) -> dict[str, list[str]]:
        found = self._connection.execute(select(schema.recorded.c.marks).where(_is_at(key))).scalar()
        return {} if found is None else decode_marks(found)

    def add(self, key: Key, marks: Iterable[tuple[str, str]]) -> None:
        """Adds benchmarks' marks, where `at` was asked before."""
        known = self._known[key]
        for benchmark, mark in marks:
            known.setdefault(benchmark, []).append(mark)
        self._changed.add(key)

    def save(self) -> None:
        """Writes what was added."""
        rows = [
            {
                "commit_id": key[0],
                "machine_id": key[1],
                "environment_id": key[2],
                "marks": encode_marks(self._known[key]),
            }
            for key in sorted(self._changed)
        ]
        insert_or_replace(self._connection, schema.recorded, rows)
        self._changed.clear()


def is_known(mark: str, known: Sequence[str]) -> bool:
    """Whether an entry with this mark is in.

    Marks of before schema 0003 have "-" in place of ":" and another digest: there the start alone tells, if there is
    one.
    """
    if mark in known:
        return True
    started, is_new, _ = mark.partition(":")
    return bool(is_new) and started != "0" and any(each.startswith(f"{started}-") for each in known)


def encode_marks(marks: Mapping[str, Sequence[str]]) -> bytes:
    return codec.compress(orjson.dumps(marks))


def decode_marks(data: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = orjson.loads(codec.decompress(data))
    return found


def _is_at(key: Key) -> Any:
    table = schema.recorded
    commit, machine, environment = key
    return (table.c.commit_id == commit) & (table.c.machine_id == machine) & (table.c.environment_id == environment)
