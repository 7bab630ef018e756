"""Triage: an alert's assignee, link and version, what each event was, and where a person says that a change came."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("alert", sa.Column("assignee", sa.Text(), nullable=True))
    op.add_column("alert", sa.Column("link", sa.Text(), nullable=True))
    op.add_column("alert", sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("alert_event", sa.Column("kind", sa.Text(), nullable=False, server_default="state"))
    op.add_column("alert_event", sa.Column("detail", sa.Text(), nullable=True))
    op.create_table(
        "stated_change",
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("previous_commit_id", sa.Integer(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("stated_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["alert_id"], ["alert.id"], name=op.f("fk_stated_change_alert_id")),
        *(
            sa.ForeignKeyConstraint([name], ["commit.id"], name=op.f(f"fk_stated_change_{name}"))
            for name in ("commit_id", "previous_commit_id")
        ),
        sa.PrimaryKeyConstraint("alert_id", name=op.f("pk_stated_change")),
    )
