"""The range of commits in which a change lies. Findings are made again from the values, so that the old ones go."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COMMITS = ("commit_id", "previous_commit_id", "range_start_commit_id", "range_end_commit_id")


def upgrade() -> None:
    op.drop_table("changepoint")
    op.create_table(
        "changepoint",
        sa.Column("series_id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _COMMITS),
        sa.Column("place", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=False) for name in ("before", "after", "magnitude", "low", "high")),
        sa.Column("p_value", sa.Float(), nullable=False),
        sa.Column("is_worse", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_changepoint_series_id")),
        *(sa.ForeignKeyConstraint([name], ["commit.id"], name=op.f(f"fk_changepoint_{name}")) for name in _COMMITS),
        sa.PrimaryKeyConstraint("series_id", "commit_id", name=op.f("pk_changepoint")),
    )
    op.create_index(op.f("ix_changepoint_commit_id"), "changepoint", ["commit_id"])
    op.execute("UPDATE series SET stale = " + ("1" if op.get_bind().dialect.name == "sqlite" else "true"))
