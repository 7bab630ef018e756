"""Fingerprints ("marks") of imported asv entries, by commit, machine, environment and benchmark.

A mark is the entry's start and a digest of its values. asv re-saves a file with every benchmark it ever had: a known
mark is an old entry, and a new mark is a new run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, select

from . import schema
from .chunks import codec
from .statements import insert_or_replace

Key = tuple[int, int, int]  # commit, machine, environment


class ImportedEntries:
    """The marks, read on demand. Use one in a transaction, and save it before the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[Key, dict[str, list[str]]] = {}
        self._changed: set[Key] = set()

    def at(self, key: Key) -> Mapping[str, Sequence[str]]:
        """The marks by benchmark."""
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: Key) -> dict[str, list[str]]:
        data = self._connection.execute(select(schema.recorded.c.marks).where(_has_key(key))).scalar()
        return {} if data is None else decode_marks(data)

    def add(self, key: Key, marks: Iterable[tuple[str, str]]) -> None:
        """Add marks of benchmarks, after a call of `at`."""
        known = self._known[key]
        for benchmark, mark in marks:
            known.setdefault(benchmark, []).append(mark)
        self._changed.add(key)

    def save(self) -> None:
        """Write the added marks."""
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
    """Whether an entry with this mark was imported.

    Old marks have "-" in place of ":" and another digest: only their starts are compared.
    """
    if mark in known:
        return True
    started, is_new, _ = mark.partition(":")
    return bool(is_new) and started != "0" and any(each.startswith(f"{started}-") for each in known)


def encode_marks(marks: Mapping[str, Sequence[str]]) -> bytes:
    return codec.compress(orjson.dumps(marks))


def decode_marks(data: bytes) -> dict[str, list[str]]:
    marks: dict[str, list[str]] = orjson.loads(codec.decompress(data))
    return marks


def _has_key(key: Key) -> Any:
    table = schema.recorded
    commit, machine, environment = key
    return (table.c.commit_id == commit) & (table.c.machine_id == machine) & (table.c.environment_id == environment)
