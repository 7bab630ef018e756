"""What pages remember by: counts of each project's writes. And which files an import could not take, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "written",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("found", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("said", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_written")),
    )
    op.create_table(
        "set_aside",
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_set_aside_project_id")),
        sa.PrimaryKeyConstraint("project_id", "source", "number", name=op.f("pk_set_aside")),
    )
