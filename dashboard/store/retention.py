"""Retention: drop samples, thin old commits, remove unlisted series; and compaction of chunks.

Without a policy nothing is lost: chunks are joined. Ages are relative to the newest commit of the project, not to the
clock.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, func, select, text, update

from . import schema
from .analysis import request_classification
from .chunks import Columns, Ints, SampleColumns
from .commit_index import CommitIndex, read_commit_index
from .engine import Store
from .ids import invalidate_row_ids
from .mappers import project_id
from .point_buffer import mark_stale
from .points import LONG, batches, read_points, read_samples, replace_points, replace_samples
from .statements import id_in

_DAY_MS = 24 * 3600 * 1000
_AT_ONCE = 200  # series in one transaction
_GOLDEN, _TURN = 2654435769, 2**32  # their quotient is the golden ratio minus one
_SERIES_TABLES = ("changepoint", "episode", "summary", "annotation", "chunk", "sample_chunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """What to drop; None: nothing."""

    samples_days: int | None = None  # drop the samples of older commits; their values stay
    thin_after_days: int | None = None  # of older commits keep every `thin_every`-th,
    thin_every: int = 4  # and those of changepoints, alerts and notes
    unlisted_days: int | None = None  # remove series that are not in benchmarks.json and have only older values

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and (type(value) is not int or value < (2 if each.name == "thin_every" else 0)):
                raise ValueError(f"{each.name} is {value!r}; expected an integer, at least 2 for thin_every, else 0")


@dataclass(slots=True, kw_only=True)
class Compaction:
    """Result of a compaction, or of a dry run."""

    series_removed: int = 0
    points_removed: int = 0
    samples_removed: int = 0
    chunks_joined: int = 0


class _DryRunError(Exception):
    """Rolls a transaction back."""


def compact(
    store: Store,
    project: str,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
) -> Compaction:
    """Apply the policy to a project and join chunks; `dry_run`: only count.

    Each batch of series is a transaction, so that a kill leaves the rest for the next call. Series that lost points
    become stale.
    """
    done = Compaction()
    with store.read() as connection:
        table = schema.series
        owner = project_id(connection, project)
        own = select(table.c.id).where(table.c.project_id == owner).order_by(table.c.id)
        ids = connection.execute(own).scalars().all()
    for batch in batches(ids, _AT_ONCE):
        try:
            with store.write(project, of_project=True) as connection:
                _Batch(connection, read_commit_index(connection, owner), policy, done).compact(batch)
                if dry_run:
                    raise _DryRunError
        except _DryRunError:
            pass
    return done


def drop_project(store: Store, project: str) -> None:
    """Remove a project with all its records."""
    with store.write(project, of_project=True) as connection:
        owner = project_id(connection, project)
        owned = {
            table.name: select(table.c.id).where(table.c.project_id == owner)
            for table in schema.metadata.sorted_tables
            if "project_id" in table.c and "id" in table.c
        }
        for table in reversed(schema.metadata.sorted_tables):
            if "project_id" in table.c:
                connection.execute(delete(table).where(table.c.project_id == owner))
                continue
            for key in table.foreign_keys:
                if key.column.table.name in owned:
                    connection.execute(delete(table).where(key.parent.in_(owned[key.column.table.name])))
        connection.execute(delete(schema.project).where(schema.project.c.id == owner))
        invalidate_row_ids(connection)


def reclaim(store: Store) -> None:
    """Release the space of deleted rows (VACUUM)."""
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("VACUUM ANALYZE"))
            return
        raw = connection.connection.dbapi_connection
        assert raw is not None
        cursor = raw.cursor()
        cursor.execute("PRAGMA temp_store=FILE")  # the copy may not fit into memory
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA temp_store=MEMORY")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.close()


@dataclass(slots=True)
class _Batch:
    """A batch of series within a transaction."""

    connection: Connection
    commit_index: CommitIndex
    policy: RetentionPolicy
    done: Compaction
    _newest_ms: int = field(init=False, default=0)

    def compact(self, series: Collection[int]) -> None:
        self._newest_ms = int(self.commit_index.date_ms.max(initial=0))
        points = read_points(self.connection, series)
        gone = self._unlisted(series, points)
        self._remove(gone)
        kept = {number: each for number, each in points.items() if number not in gone}
        self.done.points_removed += sum(len(points[number]) for number in gone)
        referenced = self._referenced_commits(kept)
        chunks = self._count_chunks(series)
        changed = []
        for number, each in kept.items():
            stay = self._is_kept(each.commit, referenced.get(number, frozenset()))
            lost = int((~stay).sum())
            if lost:
                changed.append(number)
                self.done.points_removed += lost
                self._move_alerts(number, each, stay)
            count = chunks.get(number, 0)
            least = -(-int(stay.sum()) // (2 * LONG))
            if lost or count > max(least, 1):
                self.done.chunks_joined += max(count - least, 0)
                replace_points(self.connection, number, each.take(stay) if lost else each)
        self._compact_samples(kept, referenced)
        mark_stale(self.connection, changed)

    def _days_ago_ms(self, days: int) -> int:
        return self._newest_ms - days * _DAY_MS

    def _date_ms(self, commits: Any) -> Any:
        return self.commit_index.date_ms[np.searchsorted(self.commit_index.commits, commits)]

    def _unlisted(self, series: Collection[int], points: Mapping[int, Columns]) -> set[int]:
        if self.policy.unlisted_days is None:
            return set()
        table, alerted = schema.series, schema.alert_series
        since = self._days_ago_ms(self.policy.unlisted_days)
        rows = self.connection.execute(
            select(table.c.id).where(
                id_in(self.connection, table.c.id, series),
                ~table.c.listed,
                ~table.c.stale,
                ~select(alerted.c.series_id).where(alerted.c.series_id == table.c.id).exists(),
            )
        ).scalars()
        return {number for number in rows if number not in points or self._date_ms(points[number].commit).max() < since}

    def _remove(self, series: Collection[int]) -> None:
        if not series:
            return
        self.done.samples_removed += sum(len(each.samples) for each in read_samples(self.connection, series).values())
        table = schema.series
        machines = select(table.c.machine_id).where(id_in(self.connection, table.c.id, series)).distinct()
        request_classification(self.connection, self.connection.execute(machines).scalars().all())
        for name in _SERIES_TABLES:
            column = schema.metadata.tables[name].c.series_id
            self.connection.execute(delete(column.table).where(id_in(self.connection, column, series)))
        self.connection.execute(delete(schema.series).where(id_in(self.connection, schema.series.c.id, series)))
        invalidate_row_ids(self.connection)
        self.done.series_removed += len(series)

    def _referenced_commits(self, series: Collection[int]) -> dict[int, frozenset[int]]:
        """The commits of each series with changepoints, alerts or notes."""
        if self.policy.thin_after_days is None:
            return {}
        change, alerted, note = schema.changepoint, schema.alert_series, schema.annotation
        alert, stated = schema.alert, schema.stated_change
        of_alert, of_series = alerted.c.alert_id, alerted.c.series_id
        referenced: dict[int, set[int]] = {number: set() for number in series}
        for column, query in (
            (change.c.series_id, select(change.c.series_id, change.c.commit_id, change.c.previous_commit_id)),
            (
                of_series,
                select(of_series, alerted.c.commit_id, alert.c.previous_commit_id).join(alert, alert.c.id == of_alert),
            ),
            (
                of_series,
                select(of_series, stated.c.commit_id, stated.c.previous_commit_id).join(
                    stated, stated.c.alert_id == of_alert
                ),
            ),
        ):
            for number, *commits in self.connection.execute(query.where(id_in(self.connection, column, series))):
                referenced[number].update(commits)
        noted = set(self.connection.execute(select(note.c.commit_id)).scalars())
        return {number: frozenset(commits | noted) for number, commits in referenced.items()}

    def _move_alerts(self, series: int, points: Columns, stay: Any) -> None:
        """Update the index of alerts among the commits with a number, of which fewer are left."""
        table = schema.alert_series
        alerts = self.connection.execute(
            select(table.c.commit_id, table.c.place).where(table.c.series_id == series)
        ).all()
        if not alerts:
            return
        commit = np.searchsorted(self.commit_index.commits, points.commit)
        order = np.lexsort((self.commit_index.date_ms[commit], self.commit_index.position[commit]))
        numbers = order[~np.isnan(points.value[order])]
        first = np.flatnonzero(np.diff(points.commit[numbers], prepend=-1))  # one of each commit
        before = np.concatenate([[0], np.cumsum(stay[numbers[first]])])
        for row in alerts:
            self.connection.execute(
                update(table)
                .where(table.c.series_id == series, table.c.commit_id == row.commit_id)
                .values(place=int(before[min(row.place, len(before) - 1)]))
            )

    def _is_kept(self, commit: Ints, referenced: frozenset[int]) -> Any:
        """For each commit, whether the policy keeps it. Every n-th commit is the same for all series, and fixed.

        Chosen by id, because positions change when an older commit is measured later. Multiples of the golden ratio
        modulo one distribute ids evenly at any stride, also when projects alternate, and commits kept for a larger n
        are kept for a smaller one.
        """
        if self.policy.thin_after_days is None:
            return np.ones(len(commit), dtype=bool)
        is_new = self._date_ms(commit) >= self._days_ago_ms(self.policy.thin_after_days)
        is_nth = commit.astype(np.int64) * _GOLDEN % _TURN * self.policy.thin_every < _TURN
        return is_new | is_nth | np.isin(commit, list(referenced))

    def _count_chunks(self, series: Collection[int]) -> dict[int, int]:
        table = schema.chunk
        rows = self.connection.execute(
            select(table.c.series_id, func.count().label("chunks"))
            .where(id_in(self.connection, table.c.series_id, series))
            .group_by(table.c.series_id)
        )
        return {row.series_id: row.chunks for row in rows}

    def _compact_samples(self, series: Collection[int], referenced: Mapping[int, frozenset[int]]) -> None:
        if self.policy.samples_days is None and self.policy.thin_after_days is None:
            return
        for number, samples in read_samples(self.connection, series).items():
            stay = self._is_kept(samples.commit, referenced.get(number, frozenset()))
            if self.policy.samples_days is not None:
                stay &= self._date_ms(samples.commit) >= self._days_ago_ms(self.policy.samples_days)
            if stay.all():
                continue
            single = np.repeat(stay, samples.count)
            self.done.samples_removed += int((~single).sum())
            left = SampleColumns(
                commit=samples.commit[stay],
                run=samples.run[stay],
                count=samples.count[stay],
                samples=samples.samples[single],
            )
            replace_samples(self.connection, number, left)
