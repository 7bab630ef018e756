"""What the analysis takes from the history and puts back: stale series out, changepoints and summaries in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, exists, func, select, update

from ..model.metric import Better
from ..model.series import Status
from ..model.verdict import Verdict
from ..statistics.changepoint import Changepoint
from ..statistics.detection import ANALYSIS_VERSION
from ..statistics.episodes import Episode
from ..statistics.summary import Summary
from . import schema
from .chunks import Columns, decode, join
from .classification import NOTHING_SAID, Judgements, judgements, verdict_of
from .engine import Store
from .mappers import Workloads, select_series, series_record
from .point_buffer import mark_stale
from .points import read_stretches
from .series_history import Newest
from .statements import STATUS_CODES, insert_new, is_among

_OK = STATUS_CODES[Status.OK]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleProject:
    """A project with series to analyse."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A series to analyse as it is stored: what is sent to who does it."""

    id: int
    metric: str
    unit: str
    revision: int  # what the findings are of
    stretches: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedChange:
    """A change and the ids of its commits: the first of the new level, the measured one before, and those between
    which it lies with 95 %: after the first, by the second."""

    change: Changepoint
    commit_id: int
    previous_commit_id: int
    range_start_commit_id: int
    range_end_commit_id: int
    posterior: tuple[tuple[int, float], ...]  # of the ids of the commits in the range


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEpisode:
    """An episode and the ids of its first and last commit, and of the measured one before."""

    episode: Episode
    commit_id: int
    previous_commit_id: int
    last_commit_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnalysis:
    """What the analysis found."""

    series_id: int
    revision: int
    better: Better
    changes: tuple[PlacedChange, ...]
    episodes: tuple[PlacedEpisode, ...]
    newest: Newest | None
    summary: Summary | None  # None for a series without a single row
    uses_machine_noise: bool = False  # too short to estimate its own noise


def follow_rules(store: Store, only: str | None) -> None:
    """Makes stale what was analysed by other rules than this code's: all series of a project, in one transaction.

    From then on findings by other rules count no more, also those of a process that is at them now. `only` names a
    project, if not all are meant.
    """
    table, series = schema.project, schema.series
    others = select(table.c.id, table.c.name).where(table.c.analysis_version != ANALYSIS_VERSION)
    with store.read() as connection:
        found = connection.execute(others if only is None else others.where(table.c.name == only)).all()
    for row in found:
        with store.write(row.name, of_project=True) as connection:
            done = connection.execute(
                update(table)
                .where(table.c.id == row.id, table.c.analysis_version != ANALYSIS_VERSION)
                .values(analysis_version=ANALYSIS_VERSION)
            )
            if done.rowcount:
                every = select(series.c.id).where(series.c.project_id == row.id)
                mark_stale(connection, connection.execute(every).scalars().all())


def stale_projects(store: Store) -> tuple[StaleProject, ...]:
    """The projects that have stale series."""
    stale = select(schema.series.c.project_id).where(schema.series.c.stale)
    with store.read() as connection:
        rows = connection.execute(
            select(schema.project.c.id, schema.project.c.name).where(schema.project.c.id.in_(stale))
        )
        return tuple(StaleProject(id=row.id, name=row.name) for row in rows)


def mark_peers_stale(store: Store, project: StaleProject) -> None:
    """Marks the series stale whose findings rest on the noise of a machine and environment with stale series.

    Without this, findings in short histories would depend on the order of the imports.
    """
    series, peer = schema.series, schema.series.alias()
    query = select(series.c.id).where(
        series.c.project_id == project.id,
        series.c.uses_machine_noise,
        ~series.c.stale,
        exists().where(
            peer.c.project_id == project.id,
            peer.c.stale,
            peer.c.machine_id == series.c.machine_id,
            peer.c.environment_id == series.c.environment_id,
        ),
    )
    with store.read() as connection:
        found = connection.execute(query).scalars().all()
    if found:
        with store.write(project.name, of_project=True) as connection:
            mark_stale(connection, found)


def count_stale(store: Store, project: StaleProject) -> int:
    """How many series of a project are stale."""
    series = schema.series
    with store.read() as connection:
        query = select(func.count()).select_from(series).where(series.c.project_id == project.id, series.c.stale)
        return connection.execute(query).scalar_one()


def take_stale(connection: Connection, project_id: int, *, after: int, limit: int) -> list[Stale]:
    """Up to `limit` stale series whose id is above `after`, in the order of their ids."""
    series = schema.series
    taken = connection.execute(
        select(series.c.id, series.c.metric, series.c.unit, series.c.revision)
        .where(series.c.project_id == project_id, series.c.stale, series.c.id > after)
        .order_by(series.c.id)
        .limit(limit)
    ).all()
    stretches: dict[int, list[bytes]] = {}
    for number, data in read_stretches(connection, [row.id for row in taken]):
        stretches.setdefault(number, []).append(data)
    return [
        Stale(
            id=row.id,
            metric=row.metric,
            unit=row.unit,
            revision=row.revision,
            stretches=tuple(stretches.get(row.id, ())),
        )
        for row in taken
    ]


def points_of(stale: Stale) -> Columns | None:
    """The series' points; None if it has none. A pure function, as the others that take what is sent elsewhere."""
    return join([decode(stretch) for stretch in stale.stretches]) if stale.stretches else None


def replace_analyses(connection: Connection, analyses: Sequence[SeriesAnalysis]) -> int:
    """Writes the findings in place of the earlier ones; returns of how many series. These are stale no more, and the
    findings of their machines want to be judged together. Until that is done, what was said of changes stays
    (classification.py).

    Series that have changed since the findings' revision are passed over, and stay stale.
    """
    table = schema.series
    revisions = {analysis.series_id: analysis.revision for analysis in analyses}
    machine_of = still_current(connection, revisions)
    ids = machine_of.keys()
    analyses = [analysis for analysis in analyses if analysis.series_id in ids]
    if not ids:
        return 0
    said = judgements(connection, ids)
    for each in (schema.changepoint, schema.episode, schema.summary):
        connection.execute(delete(each).where(is_among(connection, each.c.series_id, ids)))
    changes = [row for analysis in analyses for row in _changepoint_rows(analysis, said)]
    insert_new(connection, schema.changepoint, changes)
    insert_new(connection, schema.episode, [row for analysis in analyses for row in _episode_rows(analysis)])
    insert_new(connection, schema.summary, [row for analysis in analyses for row in _summary_rows(analysis, said)])
    short = {analysis.series_id for analysis in analyses if analysis.uses_machine_noise}
    for uses_noise, some in ((True, short), (False, ids - short)):
        chosen = is_among(connection, table.c.id, some)
        connection.execute(update(table).where(chosen).values(stale=False, uses_machine_noise=uses_noise))
    want_judgement(connection, set(machine_of.values()))
    return len(ids)


def still_current(connection: Connection, revisions: Mapping[int, int]) -> dict[int, int]:
    """Of these series those that still have the given revision, with their machines; none of a project that another
    version of this code analyses by now."""
    table, project = schema.series, schema.project
    rows = connection.execute(
        select(table.c.id, table.c.revision, table.c.machine_id)
        .join(project, project.c.id == table.c.project_id)
        .where(is_among(connection, table.c.id, revisions), project.c.analysis_version == ANALYSIS_VERSION)
    ).all()
    return {row.id: row.machine_id for row in rows if row.revision == revisions[row.id]}


def want_judgement(connection: Connection, machines: Collection[int]) -> None:
    """Notes, in the transaction that changes findings of these machines, that they are to be judged together again."""
    table = schema.machine
    of_these = is_among(connection, table.c.id, machines)
    connection.execute(update(table).where(of_these).values(findings=table.c.findings + 1))


def _changepoint_rows(analysis: SeriesAnalysis, said: Judgements) -> list[dict[str, Any]]:
    return [
        {
            "series_id": analysis.series_id,
            "commit_id": placed.commit_id,
            "previous_commit_id": placed.previous_commit_id,
            "range_start_commit_id": placed.range_start_commit_id,
            "range_end_commit_id": placed.range_end_commit_id,
            "place": change.index,
            "before": change.before,
            "after": change.after,
            "magnitude": change.magnitude,
            "low": change.ci_low,
            "high": change.ci_high,
            "p_value": change.p_value,
            "chance": change.p_adjusted,
            "posterior": [[commit, round(held, 4)] for commit, held in placed.posterior],
            "is_worse": (change.after > change.before) == (analysis.better is Better.LOWER),
            **said.get((analysis.series_id, placed.commit_id), NOTHING_SAID),
        }
        for placed in analysis.changes
        for change in (placed.change,)
    ]


def _episode_rows(analysis: SeriesAnalysis) -> list[dict[str, Any]]:
    return [
        {
            "series_id": analysis.series_id,
            "kind": episode.kind.value,
            "place": episode.first,
            "commit_id": placed.commit_id,
            "previous_commit_id": placed.previous_commit_id,
            "last_commit_id": placed.last_commit_id,
            "before": episode.before,
            "after": episode.after,
            "magnitude": episode.magnitude,
            "low": episode.ci_low,
            "high": episode.ci_high,
            "p_value": episode.p_value,
            "is_worse": (episode.after > episode.before) == (analysis.better is Better.LOWER),
        }
        for placed in analysis.episodes
        for episode in (placed.episode,)
    ]


def _summary_rows(analysis: SeriesAnalysis, said: Judgements) -> list[dict[str, Any]]:
    summary = analysis.summary
    if analysis.newest is None or summary is None:
        return []
    if summary.change_commit_id is not None and summary.change_is_step and summary.value is not None:
        its = said.get((analysis.series_id, summary.change_commit_id), NOTHING_SAID)
        summary = summary._replace(verdict=verdict_of(its["kind"], summary.verdict is Verdict.REGRESSED))
    return [summary_row(analysis.series_id, analysis.newest, summary)]


def summary_row(series: int, newest: Newest, summary: Summary) -> dict[str, Any]:
    """A series in short, as it is stored."""
    return {
        "series_id": series,
        "commit_id": newest.commit_id,
        "run_id": newest.run_id,
        "status": newest.status,
        "reason": newest.reason,
        "value": summary.value,
        "q25": newest.q25,
        "q75": newest.q75,
        "sample_count": newest.sample_count,
        "runs": newest.runs,
        "change": summary.change,
        "change_commit_id": summary.change_commit_id,
        "change_is_step": summary.change_is_step,
        "sparkline": list(summary.sparkline),
        "verdict": summary.verdict.value,
    }


# What series are called, where only their ids are at hand.


def series_names(store: Store, ids: Collection[int]) -> Mapping[int, str]:
    """Of each id that there is: project, benchmark with its parameters, machine and environment."""
    number = schema.series.c.id
    with store.read() as connection:
        rows = connection.execute(select_series(number).where(is_among(connection, number, ids))).all()
    records = {row.id: series_record(row, Workloads()) for row in rows}
    return {
        number: f"{one.project}: {one.title} on {one.machine}, {one.environment}" for number, one in records.items()
    }
