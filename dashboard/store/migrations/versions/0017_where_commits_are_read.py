"""Where a project's commits are read outside the dashboard."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("project", sa.Column("commit_url", sa.Text(), nullable=True))
