"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
        sa.UniqueConstraint("name", name=op.f("uq_project_name")),
    )
    op.create_table(
        "benchmark",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_benchmark_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_benchmark")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_benchmark_project_id_name")),
    )
    op.create_table(
        "commit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("date_ms", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("unmeasured_before", sa.Integer(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("parents", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_commit_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commit")),
        sa.UniqueConstraint("project_id", "hash", name=op.f("uq_commit_project_id_hash")),
    )
    op.create_index(op.f("ix_commit_project_id_position"), "commit", ["project_id", "position"])
    op.create_table(
        "environment",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_environment_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environment")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_environment_project_id_name")),
    )
    op.create_table(
        "machine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("context", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_machine_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_machine_project_id_name")),
    )
    op.create_table(
        "source_file",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("imported_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_source_file_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source_file")),
        sa.UniqueConstraint("project_id", "path", name=op.f("uq_source_file_project_id_path")),
    )
    op.create_table(
        "workload",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("flops", sa.Float(), nullable=False),
        sa.Column("bytes", sa.Float(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("kernels", sa.JSON(), nullable=False),
        sa.Column("baselines", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_workload_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workload")),
        sa.UniqueConstraint("project_id", "suite", "name", name=op.f("uq_workload_project_id_suite_name")),
    )
    op.create_table(
        "alert",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("previous_commit_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("opened_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_alert_commit_id")),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_alert_machine_id")),
        sa.ForeignKeyConstraint(["previous_commit_id"], ["commit.id"], name=op.f("fk_alert_previous_commit_id")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_alert_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert")),
    )
    op.create_index(op.f("ix_alert_project_id_state"), "alert", ["project_id", "state"])
    op.create_table(
        "recorded",
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("marks", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_recorded_commit_id")),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name=op.f("fk_recorded_environment_id")),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_recorded_machine_id")),
        sa.PrimaryKeyConstraint("commit_id", "machine_id", "environment_id", name=op.f("pk_recorded")),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("context", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_run_commit_id")),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name=op.f("fk_run_environment_id")),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_run_machine_id")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_run_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_run_project_id_name")),
    )
    op.create_index(op.f("ix_run_commit_id"), "run", ["commit_id"])
    op.create_index(op.f("ix_run_machine_id_started_ms"), "run", ["machine_id", "started_ms"])
    op.create_table(
        "series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("benchmark_id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=16), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=True),
        sa.Column("implementation", sa.Text(), nullable=True),
        sa.Column("listed", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("stale", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.ForeignKeyConstraint(["benchmark_id"], ["benchmark.id"], name=op.f("fk_series_benchmark_id")),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name=op.f("fk_series_environment_id")),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_series_machine_id")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_series_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
        sa.UniqueConstraint("key", name=op.f("uq_series_key")),
    )
    op.create_index(
        op.f("ix_series_benchmark_id_machine_id_environment_id"),
        "series",
        ["benchmark_id", "machine_id", "environment_id"],
        unique=False,
    )
    op.create_index(op.f("ix_series_project_id_stale"), "series", ["project_id", "stale"])
    op.create_table(
        "alert_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["alert_id"], ["alert.id"], name=op.f("fk_alert_event_alert_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_event")),
    )
    op.create_index(op.f("ix_alert_event_alert_id"), "alert_event", ["alert_id"])
    op.create_table(
        "alert_series",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("magnitude", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("resolved", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["alert_id"], ["alert.id"], name=op.f("fk_alert_series_alert_id")),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_alert_series_commit_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_alert_series_series_id")),
        sa.PrimaryKeyConstraint("series_id", "commit_id", name=op.f("pk_alert_series")),
    )
    op.create_index(op.f("ix_alert_series_alert_id"), "alert_series", ["alert_id"])
    op.create_table(
        "changepoint",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("previous_commit_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("before", sa.Float(), nullable=False),
        sa.Column("after", sa.Float(), nullable=False),
        sa.Column("magnitude", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("p_value", sa.Float(), nullable=False),
        sa.Column("is_worse", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_changepoint_commit_id")),
        sa.ForeignKeyConstraint(["previous_commit_id"], ["commit.id"], name=op.f("fk_changepoint_previous_commit_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_changepoint_series_id")),
        sa.PrimaryKeyConstraint("series_id", "commit_id", name=op.f("pk_changepoint")),
    )
    op.create_index(op.f("ix_changepoint_commit_id"), "changepoint", ["commit_id"])
    op.create_table(
        "compiled_code",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("architecture", sa.Text(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("registers", sa.Integer(), nullable=True),
        sa.Column("stack_bytes", sa.Integer(), nullable=True),
        sa.Column("shared_bytes", sa.Integer(), nullable=True),
        sa.Column("local_memory_instructions", sa.Integer(), nullable=True),
        sa.Column("code_bytes", sa.Integer(), nullable=True),
        sa.Column("instructions", sa.JSON(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_compiled_code_commit_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_compiled_code_run_id")),
        sa.PrimaryKeyConstraint("run_id", "kernel", "architecture", name=op.f("pk_compiled_code")),
    )
    op.create_index(op.f("ix_compiled_code_commit_id"), "compiled_code", ["commit_id"])
    op.create_table(
        "detail",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("implementation", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_detail_run_id")),
        sa.PrimaryKeyConstraint("run_id", "suite", "workload", "implementation", name=op.f("pk_detail")),
    )
    op.create_table(
        "measurement",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("q25", sa.Float(), nullable=True),
        sa.Column("q75", sa.Float(), nullable=True),
        sa.Column("sample_count", sa.Integer(), nullable=True),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_measurement_commit_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_measurement_run_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_measurement_series_id")),
        sa.PrimaryKeyConstraint("series_id", "commit_id", "run_id", name=op.f("pk_measurement")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_measurement_commit_id"), "measurement", ["commit_id"])
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=True),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("delivered_ms", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["alert_id"], ["alert.id"], name=op.f("fk_outbox_alert_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("alert_id", "destination", "kind", name=op.f("uq_outbox_alert_id_destination_kind")),
    )
    op.create_table(
        "samples",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_samples_commit_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_samples_run_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_samples_series_id")),
        sa.PrimaryKeyConstraint("series_id", "commit_id", "run_id", name=op.f("pk_samples")),
    )
    op.create_table(
        "summary",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("q25", sa.Float(), nullable=True),
        sa.Column("q75", sa.Float(), nullable=True),
        sa.Column("sample_count", sa.Integer(), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("change", sa.Float(), nullable=True),
        sa.Column("change_commit_id", sa.Integer(), nullable=True),
        sa.Column("change_is_step", sa.Boolean(), nullable=False),
        sa.Column("sparkline", sa.JSON(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["change_commit_id"], ["commit.id"], name=op.f("fk_summary_change_commit_id")),
        sa.ForeignKeyConstraint(["commit_id"], ["commit.id"], name=op.f("fk_summary_commit_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_summary_run_id")),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_summary_series_id")),
        sa.PrimaryKeyConstraint("series_id", name=op.f("pk_summary")),
    )
