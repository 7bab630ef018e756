"""Who may delete a note: two people may go by one name. Of older notes nobody knows; an admin deletes those."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("annotation", sa.Column("owner", sa.Text(), nullable=True))
