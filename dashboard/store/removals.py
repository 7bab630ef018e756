"""Tells writers that rows whose ids they remember may be gone.

PostgreSQL gives no id out twice, so whoever uses that of a removed row meets a foreign key. SQLite gives the last ones
out again, perhaps to other rows: there a count in the file's header, which belongs to the transaction, tells.
"""

from sqlalchemy import Connection


def note_removal(connection: Connection) -> None:
    """Call it where rows with ids go, in the same transaction."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {(removals(connection) + 1) % 2**31}")


def removals(connection: Connection) -> int:
    """Another number than before, if an id that was read before may be another row's now."""
    if connection.dialect.name != "sqlite":
        return 0
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
