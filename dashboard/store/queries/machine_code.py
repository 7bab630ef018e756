"""Machine code that each commit's kernels ran, and pairs of runs of equal code."""

import itertools
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ...model.machine import EqualCodePair
from .. import schema
from ..engine import Store
from ..mappers import project_id

_COMMITS = 100  # newest commits of the project


class CodeKey(NamedTuple):
    """Identity of machine code: one workload x implementation on one machine in one environment."""

    machine_id: int
    environment_id: int
    suite: str
    workload: str
    implementation: str


def codes(connection: Connection, project: int, commits: Collection[int], *where: Any) -> dict[CodeKey, dict[int, str]]:
    """Hash of the machine code by commit id, of the newest run; `where` are conditions on `run` and `detail`."""
    run, detail = schema.run, schema.detail
    rows = connection.execute(
        select(
            run.c.machine_id,
            run.c.environment_id,
            run.c.commit_id,
            detail.c.suite,
            detail.c.workload,
            detail.c.implementation,
            detail.c.code_sha256,
        )
        .join(detail, detail.c.run_id == run.c.id)
        .where(run.c.project_id == project, run.c.commit_id.in_(commits), detail.c.code_sha256.is_not(None), *where)
        .order_by(run.c.started_ms, run.c.id)
    )
    code_of: dict[CodeKey, dict[int, str]] = {}
    for row in rows:
        code_of.setdefault(_key(row), {})[row.commit_id] = row.code_sha256
    return code_of


def equal_code_pairs(store: Store, project: str) -> tuple[EqualCodePair, ...]:
    """A/A pairs: consecutive runs of equal machine code on one GPU of one machine, at the newest commits.

    Their difference is the noise of the measurement. Two runs of one commit are a pair too.
    """
    run, detail, commit = schema.run, schema.detail, schema.commit
    latency = detail.c.data["latency_s"].as_float()
    with store.read() as connection:
        owner = project_id(connection, project)
        recent = (
            select(commit.c.id).where(commit.c.project_id == owner).order_by(commit.c.position.desc()).limit(_COMMITS)
        )
        where = [run.c.project_id == owner, run.c.commit_id.in_(recent), detail.c.code_sha256.is_not(None), latency > 0]
        rows = connection.execute(
            select(
                schema.machine.c.name.label("machine"),
                schema.environment.c.name.label("environment"),
                detail.c.suite,
                detail.c.workload,
                detail.c.implementation,
                detail.c.code_sha256,
                run.c.gpu,
                commit.c.hash,
                latency.label("latency_s"),
            )
            .join_from(detail, run, run.c.id == detail.c.run_id)
            .join(commit, commit.c.id == run.c.commit_id)
            .join(schema.machine, schema.machine.c.id == run.c.machine_id)
            .join(schema.environment, schema.environment.c.id == run.c.environment_id)
            .where(*where)
            .order_by(run.c.started_ms, run.c.id)
        ).all()
    runs: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
    for row in rows:
        runs.setdefault(tuple(row[:7]), []).append((row.hash, row.latency_s))
    return tuple(
        EqualCodePair(
            machine=key[0],
            environment=key[1],
            suite=key[2],
            workload=key[3],
            implementation=key[4],
            code_sha256=key[5],
            first_commit=first[0],
            second_commit=second[0],
            first_s=first[1],
            second_s=second[1],
        )
        for key, measured in runs.items()
        for first, second in itertools.pairwise(measured)
    )


def _key(row: Any) -> CodeKey:
    return CodeKey(
        machine_id=row.machine_id,
        environment_id=row.environment_id,
        suite=row.suite,
        workload=row.workload,
        implementation=row.implementation,
    )


def ran_codes(store: Store, key: str, commits: Collection[str]) -> dict[str, str]:
    """Hash of a series' machine code by commit hash, if recorded, of the newest run."""
    series, run, detail, commit = schema.series, schema.run, schema.detail, schema.commit
    with store.read() as connection:
        row = connection.execute(
            select(series, schema.benchmark.c.name.label("benchmark"))
            .join(schema.benchmark, schema.benchmark.c.id == series.c.benchmark_id)
            .where(series.c.key == key)
        ).one_or_none()
        if row is None or row.workload is None:
            return {}
        rows = connection.execute(
            select(commit.c.hash, detail.c.code_sha256)
            .join(run, run.c.id == detail.c.run_id)
            .join(commit, commit.c.id == run.c.commit_id)
            .where(
                run.c.machine_id == row.machine_id,
                run.c.environment_id == row.environment_id,
                detail.c.suite == row.benchmark.rpartition(".")[0],
                detail.c.workload == row.workload,
                detail.c.implementation == (row.implementation or ""),
                detail.c.code_sha256.is_not(None),
                commit.c.hash.in_(commits),
            )
            .order_by(run.c.started_ms, run.c.id)
        )
        return {each.hash: each.code_sha256 for each in rows}
