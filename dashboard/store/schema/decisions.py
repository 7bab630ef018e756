"""What people decide: notes, acceptances, the stated policy, and who may upload."""

from sqlalchemy import JSON, BigInteger, Column, Float, Index, String, Table, Text, UniqueConstraint

from .base import id_column, metadata, reference

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
    Column("owner", Text),  # who may delete it: names are not unique; null: admins only
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
