"""Regressions: steps for the worse, those below the thresholds, without a cause, and changes that people stated."""

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from sqlalchemy import Connection, select

from ...model.alert import StatedChange
from ...model.changepoint import Regression, RegressionGroup, SeriesChange
from ...model.metric import Metric, metric
from ...model.series import Commit
from ...model.verdict import ChangeKind
from .. import schema
from ..cache import ROW_BYTES
from ..engine import Store, cached
from ..finding_records import BelowLimits, changes_of, group_record, regression_records, select_findings
from ..mappers import Workloads, commits_by_id, moment, project_id, series_record, workloads
from ..points import batches
from ..policy import read_stated
from ..statements import id_in
from .series_list import matching_keys


def below_limits(
    connection: Connection, owner: int, known: Workloads, series: Collection[int] | None = None
) -> BelowLimits:
    """Steps of a project, or of some series, below the thresholds that the project states.

    Without a stated threshold every step counts: the dashboard's default threshold is for comparisons of two commits,
    which detect less than a history.
    """
    stated = read_stated(connection, owner)
    if stated is None or (series is not None and not series):
        return frozenset()
    from ...model.thresholds import series_limits  # as policy.py does

    limits = series_limits(stated, known, threshold=0.0)
    change = schema.changepoint
    steps = [ChangeKind.STEP.value, ChangeKind.NOT_SIGNIFICANT.value]
    where = [schema.series.c.project_id == owner, change.c.kind.in_(steps)]
    if series is not None:
        where.append(id_in(connection, change.c.series_id, series))
    rows = connection.execute(select_findings(change).where(*where))
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
    kind: ChangeKind = ChangeKind.STEP,
    is_worse: bool = True,
) -> tuple[RegressionGroup, ...]:
    """Changes of a kind, for the worse or the better, by commit and machine, newest first.

    In a group the largest change of a time comes first. Of listed series of judged metrics, without baselines and
    canaries, which no commit of the project changes; without steps below the project's thresholds.
    """
    groups = _of_kind(store, project, kind, is_worse)
    return tuple(group for group in groups if machine in {None, group.machine})[:limit]


def _bytes(groups: Sequence[RegressionGroup]) -> int:
    return 4 * ROW_BYTES * sum(len(group.regressions) for group in groups)  # a series and a change each


@cached(size=_bytes)  # for all machines together: a request may name any machine
def _of_kind(store: Store, project: str, kind: ChangeKind, is_worse: bool) -> tuple[RegressionGroup, ...]:
    with store.read() as connection:
        groups = regressions_in(connection, project, (kind,), is_worse=is_worse)
    counting = (replace(group, regressions=tuple(one for one in group.regressions if one.counts)) for group in groups)
    return tuple(group for group in counting if group.regressions)


def regressions_in(
    connection: Connection, project: str, kinds: Sequence[ChangeKind], *, is_worse: bool = True
) -> tuple[RegressionGroup, ...]:
    """All of `regressions`, also below the thresholds, as this transaction sees them."""
    owner = project_id(connection, project)
    known = workloads(connection, owner)
    found: list[Regression] = []
    for table in (schema.changepoint, schema.episode):
        is_chosen = table.c.kind.in_([kind.value for kind in kinds]) & table.c.is_worse.is_(is_worse)
        where = [schema.series.c.project_id == owner, schema.series.c.listed, is_chosen]
        rows = connection.execute(select_findings(table).where(*where).order_by(schema.series.c.id)).all()
        below = below_limits(connection, owner, known) if rows and table is schema.changepoint else frozenset()
        found += regression_records(connection, table, rows, known, below)
    found = [one for one in found if one.series.is_ours and one.series.metric.is_judged]
    found.sort(key=lambda one: (-one.change.commit.position, one.change.commit.hash, one.series.machine))
    by_commit = itertools.groupby(found, key=lambda one: (one.change.commit, one.series.machine))
    return tuple(group_record(project, list(group)) for _, group in by_commit)


Watched = Callable[[int, str | None, str, str], Metric | None]


def watched_metrics(connection: Connection, owner: int) -> Watched:
    """A function of benchmark id, implementation, metric name and unit: the metric if judged and ours, else None."""
    known = workloads(connection, owner)
    suites = {
        number: name.rpartition(".")[0]
        for number, name in connection.execute(
            select(schema.benchmark.c.id, schema.benchmark.c.name).where(schema.benchmark.c.project_id == owner)
        )
    }

    @cache
    def watched(benchmark: int, implementation: str | None, name: str, unit: str) -> Metric | None:
        suite, series_metric = suites[benchmark], metric(name, unit)
        is_ours = not known.is_rival(suite, implementation) and not known.is_control(suite, implementation)
        return series_metric if series_metric.is_judged and is_ours else None

    return watched


_AT_ONCE = 500


def series_changes(store: Store, keys: Collection[str]) -> dict[str, tuple[SeriesChange, ...]]:
    """Changepoints of every kind by series key, in order; series without any are omitted."""
    with store.read() as connection:
        return series_changes_in(connection, keys)


def series_changes_in(connection: Connection, keys: Collection[str]) -> dict[str, tuple[SeriesChange, ...]]:
    """`series_changes` as this transaction sees them."""
    table = schema.series
    changes: dict[str, tuple[SeriesChange, ...]] = {}
    for batch in batches(sorted(keys), _AT_ONCE):
        key_of = {
            row.id: row.key for row in connection.execute(select(table.c.id, table.c.key).where(table.c.key.in_(batch)))
        }
        changes |= {key_of[number]: each for number, each in changes_of(connection, list(key_of)).items()}
    return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSeriesChange:
    """The commit that a person stated for one changepoint of a series."""

    detected: Commit  # by the detector when the alert opened
    stated: StatedChange
    alert: int


def stated_changes(store: Store, key: str) -> tuple[StatedSeriesChange, ...]:
    """Stated changes of a series by key, in the order of statement."""
    part, stated_change = schema.alert_series, schema.stated_change
    with store.read() as connection:
        rows = connection.execute(
            select(stated_change, part.c.commit_id.label("detected_id"))
            .join(part, part.c.alert_id == stated_change.c.alert_id)
            .join(schema.series, schema.series.c.id == part.c.series_id)
            .where(schema.series.c.key == key)
            .order_by(stated_change.c.stated_ms, stated_change.c.alert_id)
        ).all()
        ids = (number for row in rows for number in (row.commit_id, row.previous_commit_id, row.detected_id))
        commits = commits_by_id(connection, ids)
    changes = []
    for row in rows:
        stated = StatedChange(
            commit=commits[row.commit_id],
            previous_commit=commits[row.previous_commit_id],
            author=row.author,
            at=moment(row.stated_ms),
        )
        changes.append(StatedSeriesChange(detected=commits[row.detected_id], stated=stated, alert=row.alert_id))
    return tuple(changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """A page of groups, newest first."""

    groups: tuple[RegressionGroup, ...]
    total: int
    any_at_all: bool  # without words and period


def unattributed_changes(
    store: Store,
    project: str,
    kind: ChangeKind,
    *,
    machine: str | None = None,
    words: str = "",
    since: datetime | None = None,
    is_worse: bool = True,
    limit: int = 20,
    offset: int = 0,
) -> GroupList:
    """Groups of changes of one kind, for the worse or the better, of series that match `words`, a query of series."""
    every = groups = _of_kind(store, project, kind, is_worse)
    if words.split():
        named = matching_keys(store, project, words)
        matching = ([one for one in group.regressions if one.series.key in named] for group in every)
        groups = tuple(group_record(project, each) for each in matching if each)
    chosen = [
        group for group in groups if machine in {None, group.machine} and (since is None or group.commit.date >= since)
    ]
    return GroupList(groups=tuple(chosen[offset : offset + limit]), total=len(chosen), any_at_all=bool(every))
