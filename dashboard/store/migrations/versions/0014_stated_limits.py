"""What a project states of the changes that count: the rules of its warpwatch.toml, and which commit they are of."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stated_limits",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("rules", sa.JSON(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("commit_hash", sa.String(64), nullable=True),
        sa.Column("committed_ms", sa.BigInteger(), nullable=False),
        sa.Column("stated_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_stated_limits_project_id")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_stated_limits")),
    )
