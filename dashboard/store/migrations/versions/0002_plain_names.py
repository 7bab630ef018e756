"""Plain names of four columns, and of the kind of a change that is not significant."""

from alembic import op

revision = "0002"
down_revision = "0001"

_RENAMED = (
    ("run", "card", "gpu"),
    ("changepoint", "chance", "p_adjusted"),
    ("acceptance", "said_ms", "accepted_ms"),
    ("set_aside", "told", "message"),
)


def upgrade() -> None:
    """Rename columns and the stored kind."""
    for table, old, new in _RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    op.execute("UPDATE changepoint SET kind = 'not significant' WHERE kind = 'may be chance'")
