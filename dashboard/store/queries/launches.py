"""Machine code and launched kernels of everything measured at a commit, and at the machine's commit before it."""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import select

from .. import schema
from ..engine import Store
from ..mappers import project_id
from ..statements import id_in

MachineCommit = tuple[str, str]
"""Names of a machine and of a commit (full hash)."""

Measured = tuple[str, str, str]
"""Suite, workload, implementation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one call ran; None or empty: not recorded."""

    code_sha256: str | None
    kernels: tuple[str, ...]  # names without template arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchesAt:
    """What ran at a commit and at the one that the machine measured before it, by its newest run."""

    commit: int  # id
    before: int
    after_of: Mapping[Measured, Launch]
    before_of: Mapping[Measured, Launch]


def launches_at(store: Store, project: str, wanted: Collection[MachineCommit]) -> dict[MachineCommit, LaunchesAt]:
    """By machine and commit; those without an earlier commit on the machine are left out."""
    pairs = _with_previous(store, project, wanted)
    ids = {number for pair in pairs.values() for number in pair}
    run, detail, machine = schema.run, schema.detail, schema.machine
    found: dict[tuple[str, int], dict[Measured, Launch]] = {}
    with store.read() as connection:
        rows = connection.execute(
            select(
                machine.c.name,
                run.c.commit_id,
                detail.c.suite,
                detail.c.workload,
                detail.c.implementation,
                detail.c.code_sha256,
                detail.c.data["launched"].label("launched"),
            )
            .join_from(run, detail, detail.c.run_id == run.c.id)
            .join(machine, machine.c.id == run.c.machine_id)
            .where(run.c.project_id == project_id(connection, project), id_in(connection, run.c.commit_id, ids))
            .order_by(run.c.started_ms, run.c.id)
        )
        for row in rows:
            launch = Launch(code_sha256=row.code_sha256, kernels=tuple(row.launched or ()))
            if launch.code_sha256 or launch.kernels:
                mine = found.setdefault((row.name, row.commit_id), {})
                mine[row.suite, row.workload, row.implementation] = launch
    return {
        (name, commit): LaunchesAt(
            commit=number,
            before=before,
            after_of=found.get((name, number), {}),
            before_of=found.get((name, before), {}),
        )
        for (name, commit), (number, before) in pairs.items()
    }


def _with_previous(
    store: Store, project: str, wanted: Collection[MachineCommit]
) -> dict[MachineCommit, tuple[int, int]]:
    """Ids of each commit and of the one that its machine measured before it."""
    run, commit, machine = schema.run, schema.commit, schema.machine
    with store.read() as connection:
        rows = connection.execute(
            select(machine.c.name, commit.c.id, commit.c.hash, commit.c.position)
            .join_from(run, commit, commit.c.id == run.c.commit_id)
            .join(machine, machine.c.id == run.c.machine_id)
            .where(run.c.project_id == project_id(connection, project), commit.c.position.is_not(None))
            .distinct()
            .order_by(machine.c.name, commit.c.position)
        ).all()
    return {
        (row.name, row.hash): (row.id, before.id)
        for before, row in itertools.pairwise(rows)
        if before.name == row.name and (row.name, row.hash) in wanted
    }
