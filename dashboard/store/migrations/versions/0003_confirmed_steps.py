"""Whether runs of both commits in turns confirmed a step."""

from alembic import op
from sqlalchemy import Boolean, Column, false

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; older steps were not confirmed."""
    op.add_column("changepoint", Column("is_confirmed", Boolean, nullable=False, server_default=false()))
