"""Which machine code each commit's kernels ran, and what equal code measured twice tells of a machine."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """What a machine code belongs to: one workload x implementation on one machine in one environment."""

    machine_id: int
    environment_id: int
    suite: str
    workload: str
    implementation: str


def codes(connection: Connection, project: int, commits: Collection[int]) -> dict[CodePlace, dict[int, str]]:
    """The machine code that each of the commits ran, by commit's id; of several runs the newest."""
    run, detail = tables.run, tables.detail
    rows = connection.execute(
        select(run.c.machine_id, run.c.environment_id, run.c.commit_id, detail)
        .join(detail, detail.c.run_id == run.c.id)
        .where(run.c.project_id == project, run.c.commit_id.in_(commits), detail.c.code_sha256.is_not(None))
        .order_by(run.c.started_ms, run.c.id)
    )
    found: dict[CodePlace, dict[int, str]] = {}
    for row in rows:
        found.setdefault(_place(row), {})[row.commit_id] = row.code_sha256
    return found


def _place(row: Any) -> CodePlace:
    return CodePlace(
        machine_id=row.machine_id, environment_id=row.environment_id, suite=row.suite, workload=row.workload,
        implementation=row.implementation,
    )  # fmt: skip
