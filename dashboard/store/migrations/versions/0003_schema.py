"""The schema. `migrate` creates it whole from schema/; later revisions alter it."""

revision = "0003"
down_revision = None


def upgrade() -> None:
    """A database that has this revision has all tables."""
