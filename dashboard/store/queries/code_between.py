"""The compiled code at both ends of regressions, for the architecture of the machine that shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.compiled_difference import CodeChange, compiled_difference
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.card_records import Card
from warpwatch.dashboard.store.choosing import is_among
from warpwatch.dashboard.store.queries.code_of_machine import code_of_machine
from warpwatch.dashboard.store.queries.codes import codes
from warpwatch.dashboard.store.queries.commits import compiled_record
from warpwatch.dashboard.store.reading import project_id, workload_of, workloads
from warpwatch.dashboard.store.records import CompiledCode, Regression
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBetween:
    """What is known of the compiled code between a card's two commits."""

    differences: tuple[CodeChange, ...]  # the most to tell first
    compared: int  # kernels recorded at both commits
    ran_the_same: int  # of the card's series: the machine code that ran has one hash at both
    ran_another: int


def code_between(store: Store, project: str, cards: Sequence[Card]) -> dict[str, CodeBetween]:
    """By the card's key. Compared are the kernels of the operators and implementations that its series show."""
    commit = tables.commit
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return {}
        hashes = {end.hash for card in cards for end in (card.commit, card.previous_commit)}
        ids = {
            row.hash: row.id
            for row in connection.execute(
                select(commit.c.hash, commit.c.id).where(commit.c.project_id == owner, commit.c.hash.in_(hashes))
            )
        }
        known = workloads(connection, owner)
        compiled = _compiled(connection, list(ids.values()))
        machines = {
            row.name: row
            for row in connection.execute(select(tables.machine).where(tables.machine.c.project_id == owner))
        }
        ran = {
            (place.machine_id, place.suite, place.workload, place.implementation): its
            for place, its in codes(connection, owner, list(ids.values())).items()
        }
    found = {}
    for card in cards:
        base, head = ids[card.previous_commit.hash], ids[card.commit.hash]
        machine = machines[card.machine]
        operators = {
            workload.operator for one in card.regressions if (workload := workload_of(one.series, known)) is not None
        }
        implementations = {one.series.implementation for one in card.regressions}
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
        both = [_both(ran, machine.id, one, base, head) for one in card.regressions]
        shared = {_family(code) for code in before} & {_family(code) for code in after}  # compiled at both ends
        before, after = ([code for code in end if _family(code) in shared] for end in (before, after))
        difference = compiled_difference(before, after)
        found[card.seen.key] = CodeBetween(
            differences=tuple(sorted(difference.changes, key=lambda one: -len(one.facts))),
            compared=difference.unchanged + len(difference.changes),
            ran_the_same=sum(same is True for same in both), ran_another=sum(same is False for same in both),
        )  # fmt: skip
    return found


def _family(code: CompiledCode) -> tuple[str, str]:
    """What nobody compiled at one end is not new at the other."""
    return code.operator, code.architecture


def _both(
    ran: Mapping[tuple[Any, ...], Mapping[int, str]], machine: int, one: Regression, base: int, head: int
) -> bool | None:
    """Whether one machine code ran at both commits; None where one of them is not known."""
    its = ran.get((machine, one.series.suite, one.series.workload, one.series.implementation), {})
    return its[base] == its[head] if base in its and head in its else None


def _compiled(connection: Connection, commits: Sequence[int]) -> dict[int, list[CompiledCode]]:
    """Each kernel and architecture of each commit, from the newest run that compiled it."""
    table, run = tables.compiled_code, tables.run
    rows = connection.execute(
        select(table)
        .join(run, run.c.id == table.c.run_id)
        .where(is_among(connection, table.c.commit_id, commits))
        .order_by(run.c.started_ms)
    )
    newest = {(row.commit_id, row.operator, row.kernel, row.architecture): row for row in rows}
    found: dict[int, list[CompiledCode]] = {}
    for row in newest.values():
        found.setdefault(row.commit_id, []).append(compiled_record(row))
    return found
