"""Compiled code of a series at a commit, and at both ends of regressions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from ...model.alert import TriageItem
from ...model.changepoint import Regression, RegressionGroup
from ...model.compiled_code import CodeChange, CompiledCode, compiled_difference
from ...model.series import workload_of
from .. import schema
from ..engine import Store
from ..mappers import commit_ids, project_id, series_record, series_row, workloads
from ..statements import is_one_of
from .commits import commit_row, compiled_by_commit, compiled_of, find_row
from .machine_code import codes


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCode:
    """Compiled code of one operator at a commit, for each kernel and architecture."""

    commit: str
    codes: tuple[CompiledCode, ...]


def compiled_code(store: Store, key: str, prefix: str | None) -> CommitCode | None:
    """The compiled code of a series' operator at the commit with a hash prefix, or at the newest commit with a value.

    None for an unknown series or commit. Raises AmbiguousCommitError.
    """
    commit, summary = schema.commit, schema.summary
    with store.read() as connection:
        row = series_row(connection, key)
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        workload = workload_of(series_record(row, known), known)
        if prefix is not None:
            at = find_row(connection, row.project_name, prefix)
        else:
            at = connection.execute(
                select(commit).join(summary, summary.c.commit_id == commit.c.id).where(summary.c.series_id == row.id)
            ).one_or_none()
        if at is None:
            return None
        codes = compiled_of(connection, at.id, workload.operator) if workload is not None else ()
        return CommitCode(commit=at.hash, codes=codes)


def compiled_for(store: Store, project: str, commit: str, machine: str) -> tuple[CompiledCode, ...]:
    """Each kernel at a commit (full hash), for the machine's architecture."""
    table = schema.machine
    with store.read() as connection:
        owner = project_id(connection, project)
        row = commit_row(connection, owner, commit)
        if row is None:
            return ()
        context = connection.execute(
            select(table.c.context).where(table.c.project_id == owner, table.c.name == machine)
        ).scalar()
        return tuple(code_of_machine(compiled_of(connection, row.id), context))


def code_of_machine(compiled: Sequence[CompiledCode], context: Mapping[str, Any] | None) -> list[CompiledCode]:
    """The code of each kernel that the machine's GPU loads: of the newest architecture that it can run.

    All code if the GPU's compute capability is unknown, or too old for any.
    """
    capability = str(((context or {}).get("gpu") or {}).get("compute_capability") or "").replace(".", "")
    if not capability.isdecimal():
        return list(compiled)
    best: dict[tuple[str, str], CompiledCode] = {}
    for code in compiled:
        key = (code.operator, code.kernel)
        if _runs_on(code.architecture, int(capability)) and (
            key not in best or _number(code.architecture) > _number(best[key].architecture)
        ):
            best[key] = code
    return list(best.values()) or list(compiled)


def _number(architecture: str) -> int:
    digits = "".join(sign for sign in architecture if sign.isdecimal())
    return int(digits or 0)


def _runs_on(architecture: str, capability: int) -> bool:
    """Binary code runs on its major version from its minor version on; an `a` target only on its own version."""
    number = _number(architecture)
    if architecture.endswith("a"):
        return number == capability
    return number // 10 == capability // 10 and number <= capability


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBetween:
    """The compiled code at both ends of a group of regressions."""

    differences: tuple[CodeChange, ...]  # with most facts first
    compared: int  # kernels recorded at both commits
    ran_the_same: int  # series of the group that ran equal machine code at both
    ran_another: int  # series that ran different machine code


def code_between(store: Store, project: str, groups: Sequence[RegressionGroup | TriageItem]) -> tuple[CodeBetween, ...]:
    """The kernels of the operators and implementations of each group's series, in the order of groups."""
    with store.read() as connection:
        owner = project_id(connection, project)
        hashes = {end.hash for group in groups for end in (group.commit, group.previous_commit)}
        ids = commit_ids(connection, owner, hashes)
        known = workloads(connection, owner)
        series = [one.series for group in groups for one in group.regressions]
        operators_of = [
            {work.operator for one in group.regressions if (work := workload_of(one.series, known)) is not None}
            for group in groups
        ]
        compiled = compiled_by_commit(connection, ids.values(), set().union(*operators_of))
        machines = {
            row.name: row
            for row in connection.execute(select(schema.machine).where(schema.machine.c.project_id == owner))
        }
        ran = {
            (key.machine_id, key.suite, key.workload, key.implementation): hashes_of
            for key, hashes_of in codes(
                connection,
                owner,
                ids.values(),
                is_one_of(connection, schema.detail.c.suite, {one.suite for one in series}),
                is_one_of(
                    connection, schema.detail.c.workload, {one.workload for one in series if one.workload is not None}
                ),
            ).items()
        }
    found = []
    for group, operators in zip(groups, operators_of, strict=True):
        base, head = ids[group.previous_commit.hash], ids[group.commit.hash]
        machine = machines[group.machine]
        implementations = {one.series.implementation for one in group.regressions}
        before, after = (
            code_of_machine(
                [
                    code
                    for code in compiled.get(end, ())
                    if code.operator in operators and code.implementation in {None, *implementations}
                ],
                machine.context,
            )
            for end in (base, head)
        )
        equal = [_ran_equal_code(ran, machine.id, one, base, head) for one in group.regressions]
        shared = {_family(code) for code in before} & {_family(code) for code in after}  # compiled at both ends
        before, after = ([code for code in end if _family(code) in shared] for end in (before, after))
        difference = compiled_difference(before, after)
        between = CodeBetween(
            differences=tuple(sorted(difference.changes, key=lambda one: -len(one.facts))),
            compared=difference.unchanged + len(difference.changes),
            ran_the_same=sum(same is True for same in equal),
            ran_another=sum(same is False for same in equal),
        )
        found.append(between)
    return tuple(found)


def _family(code: CompiledCode) -> tuple[str, str]:
    """Code is only compared if it was compiled at both ends."""
    return code.operator, code.architecture


def _ran_equal_code(
    ran: Mapping[tuple[Any, ...], Mapping[int, str]], machine: int, one: Regression, base: int, head: int
) -> bool | None:
    """Whether equal machine code ran at both commits; None if one is unknown."""
    code_at = ran.get((machine, one.series.suite, one.series.workload, one.series.implementation), {})
    return code_at[base] == code_at[head] if base in code_at and head in code_at else None
