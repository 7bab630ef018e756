"""Storage for the analysis: stale series are read, changepoints, episodes and summaries written."""

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
from ..statistics.summary import GpuFacts, Summary
from . import schema
from .chunks import Columns, decode, join
from .classification import UNCLASSIFIED, Classifications, read_classifications, verdict_of
from .engine import Store
from .mappers import Workloads, select_series, series_record
from .point_buffer import mark_stale
from .points import read_chunks
from .series_history import Newest
from .statements import STATUS_CODES, id_in, insert_new

_OK = STATUS_CODES[Status.OK]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleProject:
    """A project with series to analyse."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleSeries:
    """A series to analyse, as stored; sent to workers."""

    id: int
    metric: str
    unit: str
    revision: int  # of the points
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChange:
    """A change with the ids of its commits: the first of the new level, the measured one before, and the 95 % range:
    after its start, up to its end."""

    change: Changepoint
    commit_id: int
    previous_commit_id: int
    range_start_commit_id: int
    range_end_commit_id: int
    posterior: tuple[tuple[int, float], ...]  # ids of the commits in the range, with probabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEpisode:
    """An episode with the ids of its first and last commit, and of the measured one before."""

    episode: Episode
    commit_id: int
    previous_commit_id: int
    last_commit_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnalysis:
    series_id: int
    revision: int
    better: Better
    changes: tuple[StoredChange, ...]
    episodes: tuple[StoredEpisode, ...]
    newest: Newest | None
    summary: Summary | None  # None for a series without points
    uses_machine_noise: bool = False  # too short to estimate its own noise, or measured by several GPUs
    gpu_facts: GpuFacts | None = None


def invalidate_outdated(store: Store, only: str | None) -> None:
    """Mark all series of projects with another ANALYSIS_VERSION stale, one transaction per project.

    From then on a process of another version cannot write findings. `only`: name of one project.
    """
    table, series = schema.project, schema.series
    outdated = select(table.c.id, table.c.name).where(table.c.analysis_version != ANALYSIS_VERSION)
    with store.read() as connection:
        rows = connection.execute(outdated if only is None else outdated.where(table.c.name == only)).all()
    for row in rows:
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
    stale = select(schema.series.c.project_id).where(schema.series.c.stale)
    with store.read() as connection:
        rows = connection.execute(
            select(schema.project.c.id, schema.project.c.name).where(schema.project.c.id.in_(stale))
        )
        return tuple(StaleProject(id=row.id, name=row.name) for row in rows)


def mark_peers_stale(store: Store, project: StaleProject) -> None:
    """Mark series stale that use what a machine's other series show, in an environment with stale series.

    Otherwise findings in short histories, and in those of several GPUs, would depend on the order of imports.
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
        ids = connection.execute(query).scalars().all()
    if ids:
        with store.write(project.name, of_project=True) as connection:
            mark_stale(connection, ids)


def machines_of_several_gpus(store: Store, project: StaleProject) -> tuple[str, ...]:
    """Names of the machines with stale series that several GPUs measured."""
    run, series, machine = schema.run, schema.series, schema.machine
    several = (
        select(run.c.machine_id)
        .where(run.c.project_id == project.id)
        .group_by(run.c.machine_id)
        .having(func.count(func.coalesce(run.c.gpu, "").distinct()) > 1)
    )
    stale = select(series.c.machine_id).where(series.c.project_id == project.id, series.c.stale)
    with store.read() as connection:
        names = select(machine.c.name).where(machine.c.id.in_(several), machine.c.id.in_(stale))
        return tuple(connection.execute(names.order_by(machine.c.name)).scalars())


def newest_run(store: Store, project: StaleProject) -> int:
    """The largest id of a project's runs; 0 without any."""
    run = schema.run
    with store.read() as connection:
        return connection.execute(select(func.max(run.c.id)).where(run.c.project_id == project.id)).scalar() or 0


def count_stale(store: Store, project: StaleProject) -> int:
    """Number of stale series of a project."""
    series = schema.series
    with store.read() as connection:
        query = select(func.count()).select_from(series).where(series.c.project_id == project.id, series.c.stale)
        return connection.execute(query).scalar_one()


def fetch_stale(connection: Connection, project_id: int, *, after: int, limit: int) -> list[StaleSeries]:
    """Up to `limit` stale series with an id above `after`, by id."""
    series = schema.series
    rows = connection.execute(
        select(series.c.id, series.c.metric, series.c.unit, series.c.revision)
        .where(series.c.project_id == project_id, series.c.stale, series.c.id > after)
        .order_by(series.c.id)
        .limit(limit)
    ).all()
    chunks: dict[int, list[bytes]] = {}
    for number, data in read_chunks(connection, [row.id for row in rows]):
        chunks.setdefault(number, []).append(data)
    return [
        StaleSeries(
            id=row.id,
            metric=row.metric,
            unit=row.unit,
            revision=row.revision,
            chunks=tuple(chunks.get(row.id, ())),
        )
        for row in rows
    ]


def points_of(stale: StaleSeries) -> Columns | None:
    """The series' points; None without any. Pure, because workers call it."""
    return join([decode(chunk) for chunk in stale.chunks]) if stale.chunks else None


def replace_analyses(connection: Connection, analyses: Sequence[SeriesAnalysis]) -> int:
    """Replace the findings of series; return how many. The series become fresh, and their machines await
    classification, until which changes at the same commits keep theirs.

    Series that have changed since the findings' revision are skipped, and stay stale.
    """
    table = schema.series
    revisions = {analysis.series_id: analysis.revision for analysis in analyses}
    machine_of = still_current(connection, revisions)
    ids = machine_of.keys()
    analyses = [analysis for analysis in analyses if analysis.series_id in ids]
    if not ids:
        return 0
    classified = read_classifications(connection, ids)
    for findings in (schema.changepoint, schema.episode, schema.summary):
        connection.execute(delete(findings).where(id_in(connection, findings.c.series_id, ids)))
    changes = [row for analysis in analyses for row in _changepoint_rows(analysis, classified)]
    insert_new(connection, schema.changepoint, changes)
    insert_new(connection, schema.episode, [row for analysis in analyses for row in _episode_rows(analysis)])
    insert_new(
        connection, schema.summary, [row for analysis in analyses for row in _summary_rows(analysis, classified)]
    )
    short = {analysis.series_id for analysis in analyses if analysis.uses_machine_noise}
    for uses_noise, series in ((True, short), (False, ids - short)):
        chosen = id_in(connection, table.c.id, series)
        connection.execute(update(table).where(chosen).values(stale=False, uses_machine_noise=uses_noise))
    request_classification(connection, set(machine_of.values()))
    return len(ids)


def still_current(connection: Connection, revisions: Mapping[int, int]) -> dict[int, int]:
    """The series that still have the given revision, with their machines; none of a project with another
    ANALYSIS_VERSION."""
    table, project = schema.series, schema.project
    rows = connection.execute(
        select(table.c.id, table.c.revision, table.c.machine_id)
        .join(project, project.c.id == table.c.project_id)
        .where(id_in(connection, table.c.id, revisions), project.c.analysis_version == ANALYSIS_VERSION)
    ).all()
    return {row.id: row.machine_id for row in rows if row.revision == revisions[row.id]}


def request_classification(connection: Connection, machines: Collection[int]) -> None:
    """Mark machines for classification, in the transaction that changes their findings."""
    table = schema.machine
    chosen = id_in(connection, table.c.id, machines)
    connection.execute(update(table).where(chosen).values(findings=table.c.findings + 1))


def _changepoint_rows(analysis: SeriesAnalysis, classified: Classifications) -> list[dict[str, Any]]:
    return [
        {
            "series_id": analysis.series_id,
            "commit_id": stored.commit_id,
            "previous_commit_id": stored.previous_commit_id,
            "range_start_commit_id": stored.range_start_commit_id,
            "range_end_commit_id": stored.range_end_commit_id,
            "place": change.index,
            "before": change.before,
            "after": change.after,
            "magnitude": change.magnitude,
            "low": change.ci_low,
            "high": change.ci_high,
            "p_value": change.p_value,
            "p_adjusted": change.p_adjusted,
            "posterior": [[commit, round(probability, 4)] for commit, probability in stored.posterior],
            "is_worse": (change.after > change.before) == (analysis.better is Better.LOWER),
            "is_across_gpus": change.adjusted.is_across if change.adjusted is not None else None,
            "gpus": change.adjusted.gpus if change.adjusted is not None else None,
            "family": change.adjusted.family if change.adjusted is not None else None,
            "is_confirmed": change.is_confirmed,
            **classified.get((analysis.series_id, stored.commit_id), UNCLASSIFIED),
        }
        for stored in analysis.changes
        for change in (stored.change,)
    ]


def _episode_rows(analysis: SeriesAnalysis) -> list[dict[str, Any]]:
    return [
        {
            "series_id": analysis.series_id,
            "kind": episode.kind.value,
            "place": episode.first,
            "commit_id": stored.commit_id,
            "previous_commit_id": stored.previous_commit_id,
            "last_commit_id": stored.last_commit_id,
            "before": episode.before,
            "after": episode.after,
            "magnitude": episode.magnitude,
            "low": episode.ci_low,
            "high": episode.ci_high,
            "p_value": episode.p_value,
            "is_worse": (episode.after > episode.before) == (analysis.better is Better.LOWER),
        }
        for stored in analysis.episodes
        for episode in (stored.episode,)
    ]


def _summary_rows(analysis: SeriesAnalysis, classified: Classifications) -> list[dict[str, Any]]:
    summary = analysis.summary
    if analysis.newest is None or summary is None:
        return []
    if summary.change_commit_id is not None and summary.change_is_step and summary.value is not None:
        change = classified.get((analysis.series_id, summary.change_commit_id), UNCLASSIFIED)
        summary = summary._replace(verdict=verdict_of(change["kind"], summary.verdict is Verdict.REGRESSED))
    return [summary_row(analysis.series_id, analysis.newest, summary, analysis.gpu_facts)]


def summary_row(series: int, newest: Newest, summary: Summary, gpus: GpuFacts | None) -> dict[str, Any]:
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
        "gpu_ratios": None if gpus is None else [None if ratio is None else round(ratio, 6) for ratio in gpus.ratios],
        "gpu_spread": None if gpus is None else gpus.spread,
        "gpu_references": None if gpus is None else gpus.references,
    }


def series_names(store: Store, ids: Collection[int]) -> Mapping[int, str]:
    """Name of each series by id, for messages: project, benchmark with parameters, machine and environment."""
    number = schema.series.c.id
    with store.read() as connection:
        rows = connection.execute(select_series(number).where(id_in(connection, number, ids))).all()
    records = {row.id: series_record(row, Workloads()) for row in rows}
    return {
        number: f"{one.project}: {one.title} on {one.machine}, {one.environment}" for number, one in records.items()
    }
