"""The first schema. `migrate` creates it whole from schema/; later revisions alter it."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """A database that has this revision has all tables."""
