"""End of an import: order a project's commits, and mark which series are listed."""

import bisect
import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Text, bindparam, cast, select, update

from ..model.result_file import BenchmarkSpec
from . import schema
from .engine import Store
from .point_buffer import mark_stale
from .points import recorded_at
from .statements import insert_new


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCommit:
    hash: str
    date_ms: int  # committer's
    author: str
    subject: str
    parents: tuple[str, ...]


def commit_hashes(store: Store, project_id: int) -> tuple[str, ...]:
    table = schema.commit
    with store.read() as connection:
        return tuple(connection.execute(select(table.c.hash).where(table.c.project_id == project_id)).scalars())


def store_commit_url(store: Store, project: str, project_id: int, commit_url: str) -> None:
    table = schema.project
    with store.read() as connection:
        known = connection.execute(select(table.c.commit_url).where(table.c.id == project_id)).scalar()
    if known != commit_url:
        with store.write(project, of_project=True) as connection:
            connection.execute(update(table).where(table.c.id == project_id).values(commit_url=commit_url))


def order_commits(store: Store, project: str, project_id: int, history: Sequence[KnownCommit]) -> None:
    """Set the position of every commit.

    `history`: all commits of the repository, parents first; empty without a repository, when dates decide. Commits that
    are not in the repository (rebased away) follow the last commit that is not younger. If the order changes, every
    series of the project becomes stale.
    """
    table = schema.commit
    with store.write(project, of_project=True) as connection:
        rows = connection.execute(select(table).where(table.c.project_id == project_id)).all()
        index_of = {known.hash: index for index, known in enumerate(history)}
        # Dates run backwards in real histories: a commit counts as no older than its ancestors.
        since = list(itertools.accumulate((known.date_ms for known in history), max))

        def key(row: Row[Any]) -> tuple[int, int, int, str]:
            if row.hash in index_of:
                return (index_of[row.hash], 0, 0, row.hash)
            return (bisect.bisect_right(since, row.date_ms) - 1, 1, row.date_ms, row.hash)

        ordered = sorted(rows, key=key)
        changes = []
        last: int | None = None
        for position, row in enumerate(ordered):
            index = index_of.get(row.hash)
            gap = index - last - 1 if index is not None and last is not None else None
            last = index if index is not None else last
            new = _row(row, position, gap, history[index] if index is not None else None)
            if tuple(new.values()) != (
                row.id,
                row.position,
                row.unmeasured_before,
                row.date_ms,
                row.subject,
                row.author,
                row.parents,
            ):
                changes.append(new)
        if changes:
            connection.execute(
                update(table)
                .where(table.c.id == bindparam("row"))
                .values(
                    position=bindparam("new_position"),
                    unmeasured_before=bindparam("new_gap"),
                    date_ms=bindparam("new_date"),
                    subject=bindparam("new_subject"),
                    author=bindparam("new_author"),
                    parents=bindparam("new_parents"),
                ),
                changes,
            )
        former = [row.position for row in ordered if row.position is not None]
        if any(a > b for a, b in itertools.pairwise(former)):
            every = select(schema.series.c.id).where(schema.series.c.project_id == project_id)
            mark_stale(connection, connection.execute(every).scalars().all())
            return
        # An analysis after another import may have treated unordered commits as the newest.
        unordered = [row.id for row in ordered if row.position is None]
        if not unordered:
            return
        # A running analysis of stale series may do so now: reject its findings.
        series = schema.series
        in_analysis = (series.c.project_id == project_id) & series.c.stale
        connection.execute(update(series).where(in_analysis).values(revision=series.c.revision + 1))
        mark_stale(connection, recorded_at(connection, project_id, unordered, only_analysed=True))


def _row(row: Row[Any], position: int, gap: int | None, known: KnownCommit | None) -> dict[str, Any]:
    return {
        "row": row.id,
        "new_position": position,
        "new_gap": gap,
        "new_date": known.date_ms if known else row.date_ms,
        "new_subject": known.subject if known else row.subject,
        "new_author": known.author if known else row.author,
        "new_parents": " ".join(known.parents) if known else row.parents,
    }


def mark_listed(store: Store, project: str, project_id: int, listings: Sequence[Mapping[str, BenchmarkSpec]]) -> None:
    """Mark the series whose benchmark and parameters are in one of the `benchmarks.json`, and unmark the others.

    Series of self-described benchmarks (other formats) are not changed.
    """
    series, benchmark = schema.series, schema.benchmark
    with store.write(project, of_project=True) as connection:
        rows = connection.execute(
            select(series.c.id, benchmark.c.name, cast(series.c.parameters, Text), series.c.listed)
            .join(benchmark)
            .where(series.c.project_id == project_id, ~benchmark.c.self_described)
        ).all()
        known = {
            (name, parameters): any(_is_listed(each.get(name), parameters) for each in listings)
            for name, parameters in {row[1:3] for row in rows}  # shared by the series of several machines
        }
        changes = [
            {"row": row, "new": not listed}
            for row, name, parameters, listed in rows
            if known[name, parameters] != listed
        ]
        if changes:
            connection.execute(
                update(series).where(series.c.id == bindparam("row")).values(listed=bindparam("new")), changes
            )


def _is_listed(benchmark: BenchmarkSpec | None, parameters: str) -> bool:
    """Whether the stored parameters are among the benchmark's."""
    if benchmark is None:
        return False
    pairs: list[tuple[str, str]] = json.loads(parameters)
    return len(benchmark.parameters) == len(pairs) and all(
        value in choices for (_, value), choices in zip(pairs, benchmark.parameters, strict=True)
    )


def mark_self_described(connection: Connection, project_id: int, names: Collection[str]) -> None:
    """Mark benchmarks as described by their result files; insert new ones."""
    if not names:
        return
    table = schema.benchmark
    rows = connection.execute(select(table.c.name).where(table.c.project_id == project_id, table.c.self_described))
    new = sorted(set(names) - set(rows.scalars()))
    insert_new(connection, table, [{"project_id": project_id, "name": name, "self_described": True} for name in new])
    for name in new:
        is_named = (table.c.project_id == project_id) & (table.c.name == name)
        connection.execute(update(table).where(is_named).values(self_described=True))
