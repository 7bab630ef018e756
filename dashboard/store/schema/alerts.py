"""Alerts with their history, and the outbox."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Index, Integer, Table, Text, UniqueConstraint, false

from .base import id_column, metadata, reference

# An alert of any kind: a regression at a commit, or a health finding, which has a subject instead.
alert = Table(
    "alert",
    metadata,
    id_column(),
    reference("project"),
    reference("machine"),
    Column("kind", Text, nullable=False),  # AlertKind
    Column("state", Text, nullable=False),  # AlertState
    Column("opened_ms", BigInteger, nullable=False),
    Column("assignee", Text),
    Column("link", Text),  # http or https: an issue, a pull request
    Column("version", Integer, nullable=False, server_default="1"),  # counts updates and decisions
    Column("thread", Text, nullable=False),  # common to all messages of the alert
    Column("messages", Integer, nullable=False, server_default="0"),  # sent so far
    # Of a regression:
    reference("commit", null=True),
    reference("commit", "previous_commit_id", null=True),
    Column("notified", JSON(none_as_null=True)),  # LastNotification; null: no message was sent
    # Of a health alert:
    Column("subject", Text),  # identifies the finding within its kind
    Column("finding", JSON(none_as_null=True)),  # HealthFinding as of the newest update
    Index(None, "project_id", "state"),
)
_IS_UNRESOLVED = alert.c.state != "resolved"
Index(
    "ix_alert_unresolved_subject",
    alert.c.project_id,
    alert.c.kind,
    alert.c.subject,
    unique=True,
    sqlite_where=_IS_UNRESOLVED,
    postgresql_where=_IS_UNRESOLVED,
)

alert_series = Table(
    "alert_series",
    metadata,
    reference("series", key=True),
    reference("commit", key=True),
    reference("alert"),  # a regression belongs to one alert
    Column("place", Integer, nullable=False),  # index among the series' measured commits
    Column("magnitude", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("resolved", Boolean, nullable=False, server_default=false()),
    Index(None, "alert_id"),
)

alert_event = Table(
    "alert_event",
    metadata,
    id_column(),
    reference("alert"),
    Column("at_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # after the event
    Column("author", Text),
    Column("note", Text),
    Column("kind", Text, nullable=False, server_default="state"),  # EventKind
    Column("detail", Text),  # the new assignee or link, the hash of the stated commit
    Index(None, "alert_id"),
)

# The commit that a person or a bisect states as the cause of an alert's change; the detector's commit is kept.
stated_change = Table(
    "stated_change",
    metadata,
    reference("alert", key=True),
    reference("commit"),
    reference("commit", "previous_commit_id"),
    Column("author", Text, nullable=False),
    Column("stated_ms", BigInteger, nullable=False),
)

# Messages to deliver. The messages of a thread go to a destination in the order of their numbers.
outbox = Table(
    "outbox",
    metadata,
    id_column(),
    reference("project"),
    Column("thread", Text, nullable=False),  # of an alert or a digest
    Column("number", Integer, nullable=False),  # within the thread
    Column("destination", Text, nullable=False),  # a name without secrets
    Column("payload", Text, nullable=False),
    Column("queued_ms", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("next_attempt_ms", BigInteger, nullable=False, server_default="0"),
    Column("not_before_ms", BigInteger, nullable=False, server_default="0"),  # from the destination's Retry-After
    Column("claimed_ms", BigInteger),
    Column("claimed_by", Text),
    Column("delivered_ms", BigInteger),
    Column("given_up_ms", BigInteger),
    Column("receipt", Text),  # the receiver's name of it, such as an issue's number
    Column("error", Text),
    UniqueConstraint("thread", "destination", "number"),
)
# Nearly all messages were delivered long ago.
_WAITS = outbox.c.delivered_ms.is_(None) & outbox.c.given_up_ms.is_(None)
Index("ix_outbox_waiting", outbox.c.id, sqlite_where=_WAITS, postgresql_where=_WAITS)
