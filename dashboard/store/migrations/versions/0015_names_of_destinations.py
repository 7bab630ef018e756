"""Destinations are kept by names without secrets, and until when they asked to be left alone; messages that wait are
found without those that were delivered.

Addresses of a command line stood in the outbox as they were given, tokens and passwords included. The names are those
that `warpwatch alert` gives the same addresses now (ci/alerting/places.py), so that their messages go on.
"""

import re
from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_MAIL = re.compile(
    r"(?P<scheme>mailtos?://)((?P<user>[^:/@?#]*)(:[^/@?#]*)?@)?(?P<host>[^:/@?#]+(:\d+)?)(?P<to>/[^?#]*)?"
    r"(\?(?P<settings>[^#]*))?"
)
_ADDRESSES = ("from", "to", "cc", "bcc")
_OUTBOX = sa.table("outbox", sa.column("id"), sa.column("destination"))


def upgrade() -> None:
    connection = op.get_bind()
    taken: set[str] = set()
    addresses = connection.execute(
        sa.select(_OUTBOX.c.destination)
        .where(_OUTBOX.c.destination.contains("://"))
        .group_by(_OUTBOX.c.destination)
        .order_by(sa.func.min(_OUTBOX.c.id))
    ).scalars()
    for address in addresses.all():
        name = first = _without_secrets(address)
        number = 1
        while name in taken:
            number += 1
            name = f"{first} ({number})"
        taken.add(name)
        if name != address:
            connection.execute(sa.update(_OUTBOX).where(_OUTBOX.c.destination == address).values(destination=name))
    op.add_column("outbox", sa.Column("not_before_ms", sa.BigInteger(), nullable=False, server_default="0"))
    waits = sa.text("delivered_ms IS NULL AND given_up_ms IS NULL")
    op.create_index("ix_outbox_waiting", "outbox", ["id"], sqlite_where=waits, postgresql_where=waits)


def _without_secrets(address: str) -> str:
    scheme = address.partition("://")[0] + "://"
    if scheme in {"http://", "https://"}:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        is_open = parts.netloc == host and parts.path in {"", "/"} and not parts.query and not parts.fragment
        return address if is_open else scheme + host
    mail = _MAIL.fullmatch(address)
    if mail is None:
        return scheme
    user = f"{mail['user']}@" if mail["user"] else ""
    told = "&".join(each for each in (mail["settings"] or "").split("&") if each.partition("=")[0] in _ADDRESSES)
    return f"{scheme}{user}{mail['host']}{mail['to'] or ''}" + (f"?{told}" if told else "")
