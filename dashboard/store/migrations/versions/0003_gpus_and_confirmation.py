"""Columns of GPU-adjusted histories, and of steps that runs of both commits in turns confirmed."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add columns; the next analysis fills them."""
    columns: tuple[tuple[str, str, sa.types.TypeEngine[Any]], ...] = (
        ("changepoint", "is_across_gpus", sa.Boolean()),
        ("changepoint", "gpus", sa.Integer()),
        ("changepoint", "family", sa.Integer()),
        ("summary", "gpu_ratios", sa.JSON()),
        ("summary", "gpu_spread", sa.Float()),
        ("summary", "gpu_references", sa.Integer()),
    )
    for table, name, kind in columns:
        op.add_column(table, sa.Column(name, kind))
    op.add_column("changepoint", sa.Column("is_confirmed", sa.Boolean(), nullable=False, server_default=sa.false()))
