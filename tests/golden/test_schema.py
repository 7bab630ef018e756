"""The schema of a new store."""

import sqlite3

from syrupy.assertion import SnapshotAssertion


def test_schema(database: str, snapshot: SnapshotAssertion) -> None:
    connection = sqlite3.connect(database.removeprefix("sqlite:///"))
    statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
    assert "\n\n".join(sql for (sql,) in statements) == snapshot
    connection.close()
