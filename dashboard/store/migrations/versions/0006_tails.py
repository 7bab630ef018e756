"""What the analysis keeps of each history's end, and stretches found by series and run.

Stores written before have no tail of a series until it is analysed again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tail",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("last_run", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_tail_series_id")),
        sa.PrimaryKeyConstraint("series_id", name=op.f("pk_tail")),
    )
    op.drop_index(op.f("ix_chunk_series_id"), "chunk")
    op.create_index(op.f("ix_chunk_series_id_last_run_points"), "chunk", ["series_id", "last_run", "points"])
