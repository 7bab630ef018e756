"""Alerts of the data itself are triaged as regressions are: states, whose they are, links, a history."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("health_alert", sa.Column("state", sa.Text(), nullable=False, server_default="open"))
    op.add_column("health_alert", sa.Column("assignee", sa.Text(), nullable=True))
    op.add_column("health_alert", sa.Column("link", sa.Text(), nullable=True))
    op.add_column("health_alert", sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
    op.execute("UPDATE health_alert SET state = 'resolved' WHERE resolved_ms IS NOT NULL")
    op.create_table(
        "health_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False, server_default="state"),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["alert_id"], ["health_alert.id"], name=op.f("fk_health_event_alert_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_health_event")),
    )
    op.create_index(op.f("ix_health_event_alert_id"), "health_event", ["alert_id"])
    op.execute(
        "INSERT INTO health_event (alert_id, at_ms, state, kind)"
        " SELECT id, opened_ms, 'open', 'state' FROM health_alert ORDER BY id"
    )
    op.execute(
        "INSERT INTO health_event (alert_id, at_ms, state, kind)"
        " SELECT id, resolved_ms, 'resolved', 'state' FROM health_alert WHERE resolved_ms IS NOT NULL ORDER BY id"
    )
