"""By which version of the rules a project was analysed: by none that is known, so that all of it is analysed anew."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("project", sa.Column("analysis_version", sa.Integer(), nullable=False, server_default="0"))
