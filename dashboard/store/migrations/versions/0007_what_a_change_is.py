"""Kind, the control's share and the false discovery rate of a change. Findings are made again from the values."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_COMMITS = ("commit_id", "previous_commit_id", "range_start_commit_id", "range_end_commit_id")
_OF_AN_EPISODE = ("commit_id", "previous_commit_id", "last_commit_id")
_NUMBERS = ("before", "after", "magnitude", "low", "high", "p_value")


def upgrade() -> None:
    for name in ("findings", "judged"):
        op.add_column("machine", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.drop_table("changepoint")
    op.create_table(
        "changepoint",
        sa.Column("series_id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _COMMITS),
        sa.Column("place", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=False) for name in (*_NUMBERS, "chance")),
        sa.Column("posterior", sa.JSON(), nullable=False),
        sa.Column("is_worse", sa.Boolean(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("control", sa.Text()),
        *(sa.Column(name, sa.Float()) for name in ("control_share", "control_share_low", "control_share_high")),
        sa.Column("q_value", sa.Float()),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_changepoint_series_id")),
        *(sa.ForeignKeyConstraint([name], ["commit.id"], name=op.f(f"fk_changepoint_{name}")) for name in _COMMITS),
        sa.PrimaryKeyConstraint("series_id", "commit_id", name=op.f("pk_changepoint")),
    )
    op.create_index(op.f("ix_changepoint_commit_id"), "changepoint", ["commit_id"])
    op.create_table(
        "episode",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _OF_AN_EPISODE),
        *(sa.Column(name, sa.Float(), nullable=False) for name in _NUMBERS),
        sa.Column("is_worse", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_episode_series_id")),
        *(sa.ForeignKeyConstraint([name], ["commit.id"], name=op.f(f"fk_episode_{name}")) for name in _OF_AN_EPISODE),
        sa.PrimaryKeyConstraint("series_id", "kind", "place", name=op.f("pk_episode")),
    )
    op.create_index(op.f("ix_episode_commit_id"), "episode", ["commit_id"])
    op.execute("UPDATE series SET stale = " + ("1" if op.get_bind().dialect.name == "sqlite" else "true"))
