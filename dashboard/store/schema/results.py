"""Imported results: projects, commits, series, runs, points and what the context files state."""

from typing import Any

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
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

LARGE = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in an INTEGER, which has 64 bits there

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def id_column() -> Column[int]:
    """The primary key `id`."""
    return Column("id", Integer, primary_key=True)


def reference(table: str, name: str | None = None, *, key: bool = False, null: bool = False) -> Column[int]:
    """A foreign key to the table's id, named after the table unless `name` is given; `key`: of the primary key."""
    return Column(name or f"{table}_id", Integer, ForeignKey(f"{table}.id"), nullable=null, primary_key=key)


MORE_OF_CODE = ("implementation", "dynamic_shared_bytes", "barriers", "occupancy", "occupancy_limit")


def _named_in_project() -> list[Column[Any]]:
    return [id_column(), reference("project"), Column("name", Text, nullable=False)]


def _chunk_columns() -> list[Column[Any]]:
    """Columns of a table of chunks, which hold several points of a series in the order of writing."""
    return [
        Column("id", LARGE, primary_key=True),  # grow in the order of writing
        reference("series"),
        Column("points", Integer, nullable=False),
        Column("first_run", Integer, nullable=False),  # smallest and largest run id
        Column("last_run", Integer, nullable=False),
        Column("data", LargeBinary, nullable=False),  # chunks.py
    ]


def _measurement_key() -> list[Column[Any]]:
    """The key of one workload x implementation in one run."""
    return [
        reference("run", key=True),
        *(Column(name, Text, primary_key=True) for name in ("suite", "workload", "implementation")),
    ]


project = Table(
    "project",
    metadata,
    id_column(),
    Column("name", Text, nullable=False, unique=True),
    Column("repository", Text),
    Column("analysis_version", Integer, nullable=False, server_default="0"),  # that analysed its series
    Column("commit_url", Text),  # URL prefix of a commit's full hash
)

machine = Table(
    "machine",
    metadata,
    *_named_in_project(),
    Column("details", JSON, nullable=False),  # asv's machine.json
    Column("context", JSON),  # gpu, cpu, peaks and ceilings of the newest run that recorded them
    Column("findings", Integer, nullable=False, server_default="0"),  # incremented when its series are analysed
    Column("judged", Integer, nullable=False, server_default="0"),  # value of `findings` at the last classification
    UniqueConstraint("project_id", "name"),
)

environment = Table(
    "environment",
    metadata,
    *_named_in_project(),
    UniqueConstraint("project_id", "name"),
)

commit = Table(
    "commit",
    metadata,
    id_column(),
    reference("project"),
    Column("hash", String(64), nullable=False),
    Column("date_ms", BigInteger, nullable=False),
    Column("position", Integer),  # rank in the project's order; null until an import orders it
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
    *_named_in_project(),
    Column("self_described", Boolean, nullable=False, server_default=false()),  # not in a benchmarks.json
    UniqueConstraint("project_id", "name"),
)

workload = Table(
    "workload",
    metadata,
    id_column(),
    reference("project"),
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
    id_column(),
    reference("project"),
    reference("benchmark"),
    reference("machine"),
    reference("environment"),
    Column("key", String(16), nullable=False, unique=True),
    Column("parameters", JSON, nullable=False),  # [[name, value], ...] as asv wrote them
    Column("metric", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("workload", Text),
    Column("implementation", Text),
    Column("listed", Boolean, nullable=False, server_default=true()),  # still in benchmarks.json
    Column("stale", Boolean, nullable=False, server_default=true()),  # has values that are not analysed
    Column("revision", Integer, nullable=False, server_default="0"),  # incremented when it becomes stale
    # The findings use the noise of the machine's other series: the history is too short to estimate its own.
    Column("uses_machine_noise", Boolean, nullable=False, server_default=false()),
    Index(None, "benchmark_id", "machine_id", "environment_id"),
    Index(None, "project_id", "stale"),
)

run = Table(
    "run",
    metadata,
    id_column(),
    reference("project"),
    reference("machine"),
    reference("environment"),
    reference("commit"),
    Column("name", String(64), nullable=False),  # the context file's uuid, or a digest of what asv recorded
    Column("started_ms", BigInteger),
    Column("gpu", Text),  # UUID; a machine may have several GPUs
    Column("context", JSON),
    UniqueConstraint("project_id", "name"),
    Index(None, "machine_id", "started_ms"),
    Index(None, "commit_id"),
)

# Points.
chunk = Table(
    "chunk",
    metadata,
    *_chunk_columns(),
    Index(None, "series_id", "last_run", "points"),  # covers the search for short and for new chunks
)

# Samples of points.
sample_chunk = Table(
    "sample_chunk",
    metadata,
    *_chunk_columns(),
    Index(None, "series_id"),
)

# Record of the context file of one workload x implementation in one run: clocks, temperature, cache, backend, error.
detail = Table(
    "detail",
    metadata,
    *_measurement_key(),
    Column("code_sha256", Text),  # of the machine code that ran
    Column("data", JSON, nullable=False),
    Index(None, "code_sha256"),
)

# Counters of a profiler for one workload x implementation, taken after the run and not during its measurements.
profile = Table(
    "profile",
    metadata,
    *_measurement_key(),
    Column("data", JSON, nullable=False),
)

compiled_code = Table(
    "compiled_code",
    metadata,
    reference("run", key=True),
    Column("kernel", Text, primary_key=True),
    Column("architecture", Text, primary_key=True),
    reference("commit"),
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

source_file = Table(
    "source_file",
    metadata,
    id_column(),
    reference("project"),
    Column("path", Text, nullable=False),  # below the results folder
    Column("digest", String(64), nullable=False),
    Column(
        "stamp", Text
    ),  # size, times and inode of the file, which is not read again while they are equal; null: read it
    Column("imported_ms", BigInteger, nullable=False),
    UniqueConstraint("project_id", "path"),
)

# Files that the last import from a source could not read.
set_aside = Table(
    "set_aside",
    metadata,
    reference("project", key=True),
    Column("source", Text, primary_key=True),  # the imported path, or the uploader
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("message", Text, nullable=False),  # "path: reason"
    Column("at_ms", BigInteger, nullable=False),
)

# Write counter of a project (cache.py). By name: the count continues when a dropped project is created again.
generation = Table(
    "generation",
    metadata,
    Column("project", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

# Fingerprints of imported asv entries (file_writer.py), to distinguish a re-run from a re-saved file.
recorded = Table(
    "recorded",
    metadata,
    reference("commit", key=True),
    reference("machine", key=True),
    reference("environment", key=True),
    Column("marks", LargeBinary, nullable=False),
)
