"""Findings of the analysis."""

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, SmallInteger, Table, Text, false

from .base import metadata, reference

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
