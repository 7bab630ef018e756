"""Regressions: steps for the worse, those below the thresholds, and changes that people stated."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import Connection, Text, cast, or_, select

from ...model.alert import StatedChange
from ...model.changepoint import Regression, RegressionGroup, SeriesChange
from ...model.metric import Metric, metric
from ...model.series import Commit
from ...model.verdict import ChangeKind
from .. import schema
from ..engine import Store
from ..mappers import (
    Workloads,
    change_record,
    changes_of,
    commits_by_id,
    commits_of_changes,
    commits_of_episodes,
    episode_record,
    moment,
    project_id,
    select_series,
    series_record,
    workloads,
)
from ..points import batches
from ..policy import read_stated
from ..statements import is_among

# Steps that are too small to count by the limits that a project states: detected, and nobody is called to them.

BelowLimits = frozenset[tuple[int, int]]
"""By the ids of series and commit."""


def below_limits(
    connection: Connection, owner: int, known: Workloads, series: Collection[int] | None = None
) -> BelowLimits:
    """Those of a project's steps, or of some series'. What states no threshold and no floor counts from nothing on: a
    history tells smaller steps than two commits do, and the dashboard's own threshold is for those.
    """
    stated = read_stated(connection, owner)
    if stated is None or (series is not None and not series):
        return frozenset()
    from ...model.thresholds import series_limits  # as policy.py does

    limits = series_limits(stated, known, threshold=0.0)
    change = schema.changepoint
    steps = [ChangeKind.STEP.value, ChangeKind.MAY_BE_CHANCE.value]
    where = [schema.series.c.project_id == owner, change.c.kind.in_(steps)]
    if series is not None:
        where.append(is_among(connection, change.c.series_id, series))
    rows = connection.execute(
        select_series(change.c.commit_id, change.c.before, change.c.after, change.c.magnitude)
        .join(change, change.c.series_id == schema.series.c.id)
        .where(*where)
    )
    return frozenset(
        (row.id, row.commit_id)
        for row in rows
        if not limits(series_record(row, known)).counts(row.before, row.after, row.magnitude)
    )


def regressions(
    store: Store,
    project: str,
    *,
    machine: str | None = None,
    limit: int = 100,
    all_metrics: bool = False,
    kind: ChangeKind = ChangeKind.STEP,
    also: ChangeKind | None = None,
    below_limits: bool = False,
) -> tuple[RegressionGroup, ...]:
    """Changes of a kind or two for the worse, by commit and machine, newest first; a group's largest time first.

    Listed series of judged metrics, or of every metric; those of baselines and canaries are left out, for no commit of
    the project moves them. Steps below the limits that the project states only if asked for.
    """
    # Of all machines: a machine's name may be anybody's invention.
    kinds = (kind,) if also is None else (kind, also)
    asked = ("regressions", all_metrics, kinds)

    def read() -> tuple[RegressionGroup, ...]:
        with store.read() as connection:
            return regressions_in(connection, project, kinds, all_metrics=all_metrics)

    groups = store.cached(project, asked, read)
    kept = (group for group in groups if machine in {None, group.machine})
    return tuple(kept if below_limits else _counting(kept))[:limit]


def _counting(groups: Iterable[RegressionGroup]) -> Iterator[RegressionGroup]:
    for group in groups:
        its = tuple(one for one in group.regressions if one.counts)
        if its:
            yield group if len(its) == len(group.regressions) else replace(group, regressions=its)


def regressions_in(
    connection: Connection, project: str, kinds: Sequence[ChangeKind], *, all_metrics: bool = False
) -> tuple[RegressionGroup, ...]:
    """As `regressions`, all of them, those below the limits too, as this transaction sees them."""
    owner = project_id(connection, project)
    if owner is None:
        return ()
    known = workloads(connection, owner)
    found = []
    if rows := _rows(connection, schema.changepoint, owner, kinds):
        commits = commits_by_id(connection, commits_of_changes(rows))
        below = below_limits(connection, owner, known)
        found += [
            Regression(
                series=series_record(row, known),
                change=change_record(row, commits),
                counts=(row.id, row.commit_id) not in below,
            )
            for row in rows
        ]
    if rows := _rows(connection, schema.episode, owner, kinds):
        commits = commits_by_id(connection, commits_of_episodes(rows))
        found += [Regression(series=series_record(row, known), change=episode_record(row, commits)) for row in rows]
    found = [one for one in found if one.series.is_ours and (all_metrics or one.series.metric.is_judged)]
    found.sort(key=lambda one: (-one.change.commit.position, one.change.commit.hash, one.series.machine))
    groups = []
    for (_, name), group in itertools.groupby(found, key=lambda one: (one.change.commit, one.series.machine)):
        its = sorted(group, key=lambda one: (not one.series.metric.is_time, -abs(one.change.magnitude)))
        newest_good = max((one.change.previous_commit for one in its), key=lambda commit: commit.position)
        groups.append(
            RegressionGroup(
                project=project,
                machine=name,
                commit=its[0].change.commit,
                previous_commit=newest_good,
                regressions=tuple(its),
            )
        )
    return tuple(groups)


def _rows(connection: Connection, table: Any, owner: int, kinds: Sequence[ChangeKind]) -> Any:
    series = schema.series
    is_asked = table.c.kind.in_([kind.value for kind in kinds])
    where = [series.c.project_id == owner, series.c.listed, table.c.is_worse, is_asked]
    columns = [column for column in table.c if column.name != "series_id"]
    return connection.execute(
        select_series(*columns).join(table, table.c.series_id == series.c.id).where(*where).order_by(series.c.id)
    ).all()


# Which series may become regressions: ours, of judged metrics; and series by words of their name.

Watched = Callable[[int, str | None, str, str], Metric | None]


def watched_metrics(connection: Connection, owner: int) -> Watched:
    """Of a benchmark's id, an implementation, a metric's name and its unit: the metric, if such series are watched."""
    known = workloads(connection, owner)
    suites = {
        number: name.rpartition(".")[0]
        for number, name in connection.execute(
            select(schema.benchmark.c.id, schema.benchmark.c.name).where(schema.benchmark.c.project_id == owner)
        )
    }

    @cache
    def watched(benchmark: int, implementation: str | None, name: str, unit: str) -> Metric | None:
        suite, its = suites[benchmark], metric(name, unit)
        is_ours = not known.is_rival(suite, implementation) and not known.is_control(suite, implementation)
        return its if its.is_judged and is_ours else None

    return watched


def named_series(connection: Connection, owner: int, words: str) -> set[int]:
    """The project's series whose benchmark and parameters hold every word, letter case aside."""
    series, benchmark = schema.series, schema.benchmark
    where: list[Any] = [series.c.project_id == owner]
    for word in words.split():
        fields = (benchmark.c.name, cast(series.c.parameters, Text))
        where.append(or_(*(field.icontains(word, autoescape=True) for field in fields)))
    found = select(series.c.id).join(benchmark, benchmark.c.id == series.c.benchmark_id).where(*where)
    return set(connection.execute(found).scalars())


# The changepoints of some series, by their keys.

_AT_ONCE = 500


def series_changes(store: Store, keys: Collection[str]) -> dict[str, tuple[SeriesChange, ...]]:
    """Those of each series that has any, in order; of every kind, for the worse or the better."""
    with store.read() as connection:
        return series_changes_in(connection, keys)


def series_changes_in(connection: Connection, keys: Collection[str]) -> dict[str, tuple[SeriesChange, ...]]:
    """As `series_changes`, as this transaction sees them."""
    table = schema.series
    found: dict[str, tuple[SeriesChange, ...]] = {}
    for some in batches(sorted(keys), _AT_ONCE):
        names = {
            row.id: row.key for row in connection.execute(select(table.c.id, table.c.key).where(table.c.key.in_(some)))
        }
        found |= {names[number]: its for number, its in changes_of(connection, list(names)).items()}
    return found


# Where people say that a series' changes came, beside what the detector told.


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedOfSeries:
    """A person's word on one changepoint of a series."""

    detected: Commit  # as the detector had it when the alert opened
    stated: StatedChange
    alert: int


def stated_changes(store: Store, key: str) -> tuple[StatedOfSeries, ...]:
    """Those of the series of this key, in the order in which they were stated."""
    part, said = schema.alert_series, schema.stated_change
    with store.read() as connection:
        rows = connection.execute(
            select(said, part.c.commit_id.label("detected_id"))
            .join(part, part.c.alert_id == said.c.alert_id)
            .join(schema.series, schema.series.c.id == part.c.series_id)
            .where(schema.series.c.key == key)
            .order_by(said.c.stated_ms, said.c.alert_id)
        ).all()
        ids = (number for row in rows for number in (row.commit_id, row.previous_commit_id, row.detected_id))
        its = commits_by_id(connection, ids)
    found = []
    for row in rows:
        at = moment(row.stated_ms)
        assert at is not None
        stated = StatedChange(
            commit=its[row.commit_id], previous_commit=its[row.previous_commit_id], author=row.author, at=at
        )
        found.append(StatedOfSeries(detected=its[row.detected_id], stated=stated, alert=row.alert_id))
    return tuple(found)
