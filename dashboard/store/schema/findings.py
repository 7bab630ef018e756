"""Tables of findings, alerts and decisions of users."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from .results import id_column, metadata, reference

changepoint = Table(
    "changepoint",
    metadata,
    reference("series", key=True),
    reference("commit", key=True),
    reference("commit", "previous_commit_id"),
    reference("commit", "range_start_commit_id"),
    reference("commit", "range_end_commit_id"),  # 95 % range: after its start, up to its end
    Column("place", Integer, nullable=False),  # index among the commits that have a number
    Column("before", Float, nullable=False),
    Column("after", Float, nullable=False),
    Column("magnitude", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("p_adjusted", Float, nullable=False),
    Column("posterior", JSON, nullable=False),  # [[commit id, probability], ...] of the range
    Column("is_worse", Boolean, nullable=False),
    # Of GPU-adjusted values, else NULL (changepoint.Adjusted):
    Column("is_across_gpus", Boolean),
    Column("gpus", Integer),
    Column("family", Integer),
    Column("is_confirmed", Boolean, nullable=False, server_default=false()),  # by runs of both commits in turns
    # Classification (classification.py):
    Column("kind", Text, nullable=False),  # ChangeKind
    Column("control", Text),  # verdict.Control
    Column("control_share", Float),
    Column("control_share_low", Float),
    Column("control_share_high", Float),
    Column("q_value", Float),
    Index(None, "commit_id"),
)

# Transients, drifts and machine states, which no single commit caused.
episode = Table(
    "episode",
    metadata,
    reference("series", key=True),
    Column("kind", Text, primary_key=True),  # ChangeKind
    Column(
        "place", Integer, primary_key=True, autoincrement=False
    ),  # index of its first commit among those with a number
    reference("commit"),
    reference("commit", "previous_commit_id"),
    reference("commit", "last_commit_id"),
    Column("before", Float, nullable=False),
    Column("after", Float, nullable=False),
    Column("magnitude", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("is_worse", Boolean, nullable=False),
    Index(None, "commit_id"),
)

# Summary of each series, written by the analysis, so that the overview reads no history.
summary = Table(
    "summary",
    metadata,
    reference("series", key=True),
    reference("commit"),
    reference("run"),
    Column("status", SmallInteger, nullable=False),
    Column("reason", Text),
    Column("value", Float),  # median over the runs of the newest commit
    Column("q25", Float),
    Column("q75", Float),
    Column("sample_count", Integer),
    Column("runs", Integer, nullable=False),  # at the newest commit
    Column("change", Float),
    reference("commit", "change_commit_id", null=True),
    Column("change_is_step", Boolean, nullable=False),
    Column("sparkline", JSON, nullable=False),
    Column("verdict", Text, nullable=False),
    # Of a series that several GPUs measured, else NULL (summary.GpuFacts):
    Column(
        "gpu_ratios", JSON(none_as_null=True)
    ),  # GPU-adjusted over measured value of each commit with a number; null: unknown
    Column("gpu_spread", Float),
    Column("gpu_references", Integer),
)


# A token lets a program write over HTTP: one project, one purpose. Only its hash is stored.
token = Table(
    "token",
    metadata,
    id_column(),
    reference("project"),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),  # tokens.Scope
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256
    Column("created_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
    Column("revoked_ms", BigInteger),
    Index(None, "project_id"),
)

# A person's note on a commit, or on one series at a commit.
annotation = Table(
    "annotation",
    metadata,
    id_column(),
    reference("commit"),
    reference("series", null=True),
    Column("author", Text, nullable=False),
    Column("owner", Text),  # subject of the person who may delete it, as names are not unique; null: admins only
    Column("text", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "commit_id"),
    Index(None, "series_id"),
)

# A regression that a person accepted for one range of commits. Hashes, because a gate may run on commits that are not
# recorded yet.
acceptance = Table(
    "acceptance",
    metadata,
    id_column(),
    reference("project"),
    Column("base", String(64), nullable=False),
    Column("head", String(64), nullable=False),
    Column("pattern", Text, nullable=False),  # a glob
    Column("reason", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("source", Text, nullable=False),  # the commit trailer, file or comment it came from
    Column("at_most", Float),  # the largest relative change accepted; null: any
    Column("accepted_ms", BigInteger, nullable=False),
    Column("recorded_ms", BigInteger, nullable=False),
    UniqueConstraint("project_id", "base", "head", "source", "pattern"),
)

# The thresholds that a project states, as rules, so that they apply to new series too; those of the newest commit.
stated_limits = Table(
    "stated_limits",
    metadata,
    reference("project", key=True),
    Column("rules", JSON, nullable=False),  # model.thresholds.LimitRules
    Column("source", Text, nullable=False),  # path of the file in its repository
    Column("commit_hash", String(64)),  # last commit that changed the file; null: the file is in no repository
    Column("committed_ms", BigInteger, nullable=False),  # without a commit: modification time of the file
    Column("stated_ms", BigInteger, nullable=False),
)


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
