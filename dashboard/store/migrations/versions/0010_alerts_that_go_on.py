"""Alerts that go on: what was told of each, those of the data itself, and messages in an order of their own.

Messages of before keep their alert as their thread.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("alert", sa.Column("told", sa.JSON(), nullable=True))
    op.create_table(
        "health_alert",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("finding", sa.JSON(), nullable=False),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("opened_ms", sa.BigInteger(), nullable=False),
        sa.Column("resolved_ms", sa.BigInteger()),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_health_alert_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_health_alert")),
    )
    op.create_index(op.f("ix_health_alert_project_id_kind_subject"), "health_alert", ["project_id", "kind", "subject"])
    # Another shape, which SQLite cannot give a table that is there.
    op.rename_table("outbox", "old_outbox")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE old_outbox RENAME CONSTRAINT pk_outbox TO pk_old_outbox")
        op.execute("ALTER SEQUENCE outbox_id_seq RENAME TO old_outbox_id_seq")
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("queued_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_attempt_ms", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("claimed_ms", sa.BigInteger()),
        sa.Column("claimed_by", sa.Text()),
        sa.Column("delivered_ms", sa.BigInteger()),
        sa.Column("given_up_ms", sa.BigInteger()),
        sa.Column("receipt", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_outbox_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("thread", "destination", "number", name=op.f("uq_outbox_thread_destination_number")),
    )
    op.execute(
        "INSERT INTO outbox (project_id, thread, number, destination, payload, queued_ms, attempts, claimed_ms,"
        " claimed_by, delivered_ms, error)"
        " SELECT alert.project_id, 'alert-' || alert.id, CASE old.kind WHEN 'opened' THEN 1 ELSE old.id + 1 END,"
        " old.destination, old.payload, alert.opened_ms, old.attempts, old.claimed_ms, old.claimed_by,"
        " old.delivered_ms, old.error"
        " FROM old_outbox AS old JOIN alert ON alert.id = old.alert_id ORDER BY old.id"
    )
    op.drop_table("old_outbox")
