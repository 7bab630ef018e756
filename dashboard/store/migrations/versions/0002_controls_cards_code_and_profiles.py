"""Controls of a workload, the card of a run, the machine code of a measurement, profiles, more of compiled code."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workload", sa.Column("controls", sa.JSON(), server_default="[]", nullable=False))
    op.add_column("run", sa.Column("card", sa.Text(), nullable=True))
    op.add_column("detail", sa.Column("code_sha256", sa.Text(), nullable=True))
    op.create_index(op.f("ix_detail_code_sha256"), "detail", ["code_sha256"])
    op.add_column("compiled_code", sa.Column("more", sa.JSON(), nullable=True))
    op.create_table(
        "profile",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("implementation", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_profile_run_id")),
        sa.PrimaryKeyConstraint("run_id", "suite", "workload", "implementation", name=op.f("pk_profile")),
    )
    _name_the_cards()


def _name_the_cards() -> None:
    """Runs of before have their card in what they recorded of the GPU."""
    run = sa.table("run", sa.column("id", sa.Integer), sa.column("card", sa.Text), sa.column("context", sa.Text))
    connection = op.get_bind()
    rows = connection.execute(sa.select(run.c.id, sa.cast(run.c.context, sa.Text))).all()
    cards = [
        {"row": number, "uuid": uuid}
        for number, text in rows
        if text and (uuid := ((json.loads(text) or {}).get("gpu") or {}).get("uuid"))
    ]
    if cards:
        connection.execute(
            sa.update(run).where(run.c.id == sa.bindparam("row")).values(card=sa.bindparam("uuid")), cards
        )
