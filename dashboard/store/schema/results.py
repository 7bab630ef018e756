"""Imported results: projects, commits, series, runs, points and what the context files state."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

from .base import LARGE, id_column, metadata, reference

MORE_OF_CODE = ("implementation", "dynamic_shared_bytes", "barriers", "occupancy", "occupancy_limit")

project = Table(
    "project",
    metadata,
    id_column(),
    Column("name", Text, nullable=False, unique=True),
    Column("repository", Text),
    Column("analysis_version", Integer, nullable=False, server_default="0"),  # by whose rules its series were analysed
    Column("commit_url", Text),  # a commit's full hash is put behind it; null: nobody stated one
)

machine = Table(
    "machine",
    metadata,
    id_column(),
    reference("project"),
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
    id_column(),
    reference("project"),
    Column("name", Text, nullable=False),
    UniqueConstraint("project_id", "name"),
)

commit = Table(
    "commit",
    metadata,
    id_column(),
    reference("project"),
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
    id_column(),
    reference("project"),
    Column("name", Text, nullable=False),
    Column("self_described", Boolean, nullable=False, server_default=false()),  # not by a benchmarks.json
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
    id_column(),
    reference("project"),
    reference("machine"),
    reference("environment"),
    reference("commit"),
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
    Column("id", LARGE, primary_key=True),  # those of a series grow in the order of writing
    reference("series"),
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
    Column("id", LARGE, primary_key=True),
    reference("series"),
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
    reference("run", key=True),
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
    reference("run", key=True),
    Column("suite", Text, primary_key=True),
    Column("workload", Text, primary_key=True),
    Column("implementation", Text, primary_key=True),
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
    Column("stamp", Text),  # the file's size, times and inode: equal, and it need not be read; null: read it
    Column("imported_ms", BigInteger, nullable=False),
    UniqueConstraint("project_id", "path"),
)

# Files that the last import from a place could not take.
set_aside = Table(
    "set_aside",
    metadata,
    reference("project", key=True),
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
    reference("commit", key=True),
    reference("machine", key=True),
    reference("environment", key=True),
    Column("marks", LargeBinary, nullable=False),
)
