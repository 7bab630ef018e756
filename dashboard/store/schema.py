"""The tables. Times are milliseconds since 1970 (UTC), so that every database keeps them alike.

`migrate` creates them. Points are append-only: a re-run adds some. They stand in
`chunk`, many in a row, since a row a point would take three times the room and the time (README.md); points.py alone
writes and reads them.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

_LARGE = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up an INTEGER alone, which has 64 bits there

MORE_OF_CODE = ("implementation", "dynamic_shared_bytes", "barriers", "occupancy", "occupancy_limit")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _ref(table: str, name: str | None = None, *, key: bool = False, null: bool = False) -> Column[int]:
    target = f"{table}.id"
    return Column(name or f"{table}_id", Integer, ForeignKey(target), nullable=null, primary_key=key)


project = Table(
    "project",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("repository", Text),
    Column("analysis_version", Integer, nullable=False, server_default="0"),  # by whose rules its series were analysed
    Column("commit_url", Text),  # a commit's full hash is put behind it; null: nobody stated one
)

machine = Table(
    "machine",
    metadata,
    _id(),
    _ref("project"),
    Column("name", Text, nullable=False),
    Column("details", JSON, nullable=False),  # asv's machine.json
    Column("context", JSON),  # gpu, cpu, peaks and ceilings of the newest run that told them
    Column("findings", Integer, nullable=False, server_default="0"),  # counts up whenever its series are analysed
    Column("judged", Integer, nullable=False, server_default="0"),  # the findings that were judged together last
    UniqueConstraint("project_id", "name"),
)

environment = Table(
    "environment",
    metadata,
    _id(),
    _ref("project"),
    Column("name", Text, nullable=False),
    UniqueConstraint("project_id", "name"),
)

commit = Table(
    "commit",
    metadata,
    _id(),
    _ref("project"),
    Column("hash", String(64), nullable=False),
    Column("date_ms", BigInteger, nullable=False),
    Column("position", Integer),  # rank in the project's order; null until an import has sorted it in
    Column("unmeasured_before", Integer),  # commits without results since the one before; null without a repository
    Column("subject", Text),
    Column("author", Text),
    Column("parents", Text),  # hashes, separated by spaces
    UniqueConstraint("project_id", "hash"),
    Index(None, "project_id", "position"),
)

benchmark = Table(
    "benchmark",
    metadata,
    _id(),
    _ref("project"),
    Column("name", Text, nullable=False),
    Column("self_described", Boolean, nullable=False, server_default=false()),  # not by a benchmarks.json
    UniqueConstraint("project_id", "name"),
)

workload = Table(
    "workload",
    metadata,
    _id(),
    _ref("project"),
    Column("suite", Text, nullable=False),  # the benchmark's name without its method
    Column("name", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("flops", Float, nullable=False),
    Column("bytes", Float, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("kernels", JSON, nullable=False),
    Column("baselines", JSON, nullable=False),
    Column("controls", JSON, nullable=False, server_default="[]"),
    UniqueConstraint("project_id", "suite", "name"),
)

series = Table(
    "series",
    metadata,
    _id(),
    _ref("project"),
    _ref("benchmark"),
    _ref("machine"),
    _ref("environment"),
    Column("key", String(16), nullable=False, unique=True),
    Column("parameters", JSON, nullable=False),  # [[name, value], ...] as asv wrote them
    Column("metric", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("workload", Text),
    Column("implementation", Text),
    Column("listed", Boolean, nullable=False, server_default=true()),  # still in benchmarks.json
    Column("stale", Boolean, nullable=False, server_default=true()),  # has values the analysis has not seen
    Column("revision", Integer, nullable=False, server_default="0"),  # counts up whenever it becomes stale
    # The findings rest on the noise of the machine's other series as well: too short to estimate its own.
    Column("uses_machine_noise", Boolean, nullable=False, server_default=false()),
    Index(None, "benchmark_id", "machine_id", "environment_id"),
    Index(None, "project_id", "stale"),
)

run = Table(
    "run",
    metadata,
    _id(),
    _ref("project"),
    _ref("machine"),
    _ref("environment"),
    _ref("commit"),
    Column("name", String(64), nullable=False),  # the context file's uuid, or a digest of what asv recorded
    Column("started_ms", BigInteger),
    Column("card", Text),  # UUID of the physical GPU, where there is one: its name is many cards'
    Column("context", JSON),
    UniqueConstraint("project_id", "name"),
    Index(None, "machine_id", "started_ms"),
    Index(None, "commit_id"),
)

# A stretch of a series: some of its points in the order they were written, in columns. Its commits and runs are ids.
chunk = Table(
    "chunk",
    metadata,
    Column("id", _LARGE, primary_key=True),  # those of a series grow in the order of writing
    _ref("series"),
    Column("points", Integer, nullable=False),
    Column("first_run", Integer, nullable=False),  # least and greatest id
    Column("last_run", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),  # columns.encode
    Index(None, "series_id", "last_run", "points"),  # tells the short and the new ones without the rows
)

# The single samples of some points of a series.
sample_chunk = Table(
    "sample_chunk",
    metadata,
    Column("id", _LARGE, primary_key=True),
    _ref("series"),
    Column("points", Integer, nullable=False),
    Column("first_run", Integer, nullable=False),
    Column("last_run", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),  # columns.encode_samples
    Index(None, "series_id"),
)

# What the context file says of one workload x implementation in one run: clocks, temperature, cache, backend, error.
detail = Table(
    "detail",
    metadata,
    _ref("run", key=True),
    Column("suite", Text, primary_key=True),
    Column("workload", Text, primary_key=True),
    Column("implementation", Text, primary_key=True),
    Column("code_sha256", Text),  # of the machine code that ran
    Column("data", JSON, nullable=False),
    Index(None, "code_sha256"),
)

# What a profiler counted of one workload x implementation: any time after the run, so not of its measurements.
profile = Table(
    "profile",
    metadata,
    _ref("run", key=True),
    Column("suite", Text, primary_key=True),
    Column("workload", Text, primary_key=True),
    Column("implementation", Text, primary_key=True),
    Column("data", JSON, nullable=False),
)

compiled_code = Table(
    "compiled_code",
    metadata,
    _ref("run", key=True),
    Column("kernel", Text, primary_key=True),
    Column("architecture", Text, primary_key=True),
    _ref("commit"),
    Column("operator", Text, nullable=False),
    Column("registers", Integer),
    Column("stack_bytes", Integer),
    Column("shared_bytes", Integer),
    Column("local_memory_instructions", Integer),
    Column("code_bytes", Integer),
    Column("instructions", JSON, nullable=False),
    Column("sha256", Text),
    Column("more", JSON),  # MORE_OF_CODE
    Index(None, "commit_id"),
)

changepoint = Table(
    "changepoint",
    metadata,
    _ref("series", key=True),
    _ref("commit", key=True),
    _ref("commit", "previous_commit_id"),
    _ref("commit", "range_start_commit_id"),
    _ref("commit", "range_end_commit_id"),  # 95 %: after the one, by the other
    Column("place", Integer, nullable=False),  # index among the commits that have a number
    Column("before", Float, nullable=False),
    Column("after", Float, nullable=False),
    Column("magnitude", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("chance", Float, nullable=False),
    Column("posterior", JSON, nullable=False),  # [[id of a commit, what it holds], ...] of the range
    Column("is_worse", Boolean, nullable=False),
    # What the machine's findings together say of it, once they are judged:
    Column("kind", Text, nullable=False),  # ChangeKind: until then, not yet judged
    Column("control", Text),  # machine_state.Control: who spoke for the machine
    Column("control_share", Float),
    Column("control_share_low", Float),
    Column("control_share_high", Float),
    Column("q_value", Float),
    Index(None, "commit_id"),
)

# What a series shows beside its changepoints, and no commit is accused of.
episode = Table(
    "episode",
    metadata,
    _ref("series", key=True),
    Column("kind", Text, primary_key=True),  # ChangeKind
    Column("place", Integer, primary_key=True, autoincrement=False),  # of its first commit among those with a number
    _ref("commit"),
    _ref("commit", "previous_commit_id"),
    _ref("commit", "last_commit_id"),
    Column("before", Float, nullable=False),
    Column("after", Float, nullable=False),
    Column("magnitude", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("is_worse", Boolean, nullable=False),
    Index(None, "commit_id"),
)

# Each series in short, written by the analysis, so that the overview needs no history.
summary = Table(
    "summary",
    metadata,
    _ref("series", key=True),
    _ref("commit"),
    _ref("run"),
    Column("status", SmallInteger, nullable=False),
    Column("reason", Text),
    Column("value", Float),  # median over the runs of the newest commit
    Column("q25", Float),
    Column("q75", Float),
    Column("sample_count", Integer),
    Column("runs", Integer, nullable=False),  # at the newest commit
    Column("change", Float),
    _ref("commit", "change_commit_id", null=True),
    Column("change_is_step", Boolean, nullable=False),
    Column("sparkline", JSON, nullable=False),
    Column("verdict", Text, nullable=False),
)

source_file = Table(
    "source_file",
    metadata,
    _id(),
    _ref("project"),
    Column("path", Text, nullable=False),  # below the results folder
    Column("digest", String(64), nullable=False),
    Column("stamp", Text),  # the file's size, times and inode: equal, and it need not be read; null: read it
    Column("imported_ms", BigInteger, nullable=False),
    UniqueConstraint("project_id", "path"),
)

# Files that the last import from a place could not take.
set_aside = Table(
    "set_aside",
    metadata,
    _ref("project", key=True),
    Column("source", Text, primary_key=True),  # the path that was imported, or who uploaded
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("told", Text, nullable=False),  # "path: reason"
    Column("at_ms", BigInteger, nullable=False),
)

# How often data of a project were changed (cache.py). By name: a project that was dropped and made again counts on.
generation = Table(
    "generation",
    metadata,
    Column("project", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

# Which of asv's benchmark entries are in, as marks.encode keeps them; tells a re-run from a re-save.
recorded = Table(
    "recorded",
    metadata,
    _ref("commit", key=True),
    _ref("machine", key=True),
    _ref("environment", key=True),
    Column("marks", LargeBinary, nullable=False),
)

# An alert of any kind: a regression at a commit, or a health finding, which has a subject instead.
alert = Table(
    "alert",
    metadata,
    _id(),
    _ref("project"),
    _ref("machine"),
    Column("kind", Text, nullable=False),  # AlertKind
    Column("state", Text, nullable=False),  # AlertState
    Column("opened_ms", BigInteger, nullable=False),
    Column("assignee", Text),
    Column("link", Text),  # http or https: an issue, a pull request
    Column("version", Integer, nullable=False, server_default="1"),  # counts updates and decisions
    Column("thread", Text, nullable=False),  # common to all messages of the alert
    Column("messages", Integer, nullable=False, server_default="0"),  # sent so far
    # Of a regression:
    _ref("commit", null=True),
    _ref("commit", "previous_commit_id", null=True),
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
    _ref("series", key=True),
    _ref("commit", key=True),
    _ref("alert"),  # a regression belongs to one alert
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
    _id(),
    _ref("alert"),
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
    _ref("alert", key=True),
    _ref("commit"),
    _ref("commit", "previous_commit_id"),
    Column("author", Text, nullable=False),
    Column("stated_ms", BigInteger, nullable=False),
)

# Messages to be delivered. Those of a thread to a destination go out in the order of their numbers.
outbox = Table(
    "outbox",
    metadata,
    _id(),
    _ref("project"),
    Column("thread", Text, nullable=False),  # one alert's, or one digest's
    Column("number", Integer, nullable=False),  # within the thread
    Column("destination", Text, nullable=False),  # a name without secrets
    Column("payload", Text, nullable=False),
    Column("queued_ms", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("next_attempt_ms", BigInteger, nullable=False, server_default="0"),
    Column("not_before_ms", BigInteger, nullable=False, server_default="0"),  # as the destination asked
    Column("claimed_ms", BigInteger),
    Column("claimed_by", Text),
    Column("delivered_ms", BigInteger),
    Column("given_up_ms", BigInteger),
    Column("receipt", Text),  # what the receiver calls it, such as an issue's number
    Column("error", Text),
    UniqueConstraint("thread", "destination", "number"),
)
# Nearly all messages were delivered long ago.
_WAITS = outbox.c.delivered_ms.is_(None) & outbox.c.given_up_ms.is_(None)
Index("ix_outbox_waiting", outbox.c.id, sqlite_where=_WAITS, postgresql_where=_WAITS)

# What lets a runner add results over HTTP: of a project, for one purpose. Only a hash of it is kept.
token = Table(
    "token",
    metadata,
    _id(),
    _ref("project"),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),  # tokens.Scope
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256
    Column("created_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
    Column("revoked_ms", BigInteger),
    Index(None, "project_id"),
)

# What a person notes about a commit, or about one series at it.
annotation = Table(
    "annotation",
    metadata,
    _id(),
    _ref("commit"),
    _ref("series", null=True),
    Column("author", Text, nullable=False),
    Column("owner", Text),  # who may delete it: names are not of one person alone; null: nobody but an admin
    Column("text", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "commit_id"),
    Index(None, "series_id"),
)

# A regression that a person accepted: counts for this range of commits and for no other. Hashes, as a gate may be asked
# of commits that are not recorded yet.
acceptance = Table(
    "acceptance",
    metadata,
    _id(),
    _ref("project"),
    Column("base", String(64), nullable=False),
    Column("head", String(64), nullable=False),
    Column("pattern", Text, nullable=False),  # a glob
    Column("reason", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("source", Text, nullable=False),  # where it was said
    Column("at_most", Float),  # the largest relative change accepted; null: any
    Column("said_ms", BigInteger, nullable=False),
    Column("recorded_ms", BigInteger, nullable=False),
    UniqueConstraint("project_id", "base", "head", "source", "pattern"),
)

# What a project says of the changes that count: the rules, not what they make of each series, so that new ones get
# theirs. One statement holds, the newest commit's.
stated_limits = Table(
    "stated_limits",
    metadata,
    _ref("project", key=True),
    Column("rules", JSON, nullable=False),  # limit_rules.rules.LimitRules
    Column("source", Text, nullable=False),  # the file, as its repository calls it
    Column("commit_hash", String(64)),  # that changed it last; null: it is in no repository
    Column("committed_ms", BigInteger, nullable=False),  # without a commit: when the file was written
    Column("stated_ms", BigInteger, nullable=False),
)
