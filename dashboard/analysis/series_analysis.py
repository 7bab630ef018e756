"""Analysis of the series that an import changed: changepoints, episodes, and a summary for the overview.

The statistics are pure functions, so any executor can run them. Values are read in one transaction and findings are
written in another, which skips series that an import has changed in between: they stay stale and are analysed again. So
are series whose analysis fails: they keep their findings, the log names them, and the others continue.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

import numpy as np

from ..executors import in_order, local_workers
from ..model.error_location import located
from ..model.metric import Metric, metric
from ..statistics.changepoint import Changepoint, Detection
from ..statistics.detection import ConfirmedStep, detect, detect_in_levels, with_confirmed
from ..statistics.episodes import Episode
from ..statistics.gpu_history import SessionChain
from ..statistics.level_path import Ints
from ..statistics.machine_noise import ENOUGH_ALONE
from ..statistics.slow_decline import slow_decline
from ..statistics.summary import GpuFacts, summarise
from ..store.analysis import (
    SeriesAnalysis,
    StaleProject,
    StaleSeries,
    StoredChange,
    StoredEpisode,
    count_stale,
    fetch_stale,
    invalidate_outdated,
    machines_of_several_gpus,
    mark_peers_stale,
    newest_run,
    points_of,
    replace_analyses,
    series_names,
    stale_projects,
)
from ..store.commit_index import CommitIndex, read_commit_index
from ..store.engine import Store
from ..store.machine_peers import MachinePeers
from ..store.series_history import SeriesHistory, series_history
from .classify import classify_machines

_log = logging.getLogger(__name__)
_AT_ONCE, _FEWEST = 200, 50  # series in one task and transaction, at most and at least
_TASKS = 20  # of each worker, to share the work evenly
_MOST_ROUNDS = 3  # in which nothing was written
_WORTH_PROCESSES = 2000  # series; with fewer, starting processes costs more than the second or two they save


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """Series to analyse, with the data that their histories need."""

    series: tuple[StaleSeries, ...]
    commit_index: CommitIndex
    sessions: "_Sessions"
    noise: Mapping[int, float | None] = field(default_factory=dict)  # of their machines, once known
    confirmed: Mapping[int, Sequence[ConfirmedStep]] = field(default_factory=dict)  # by series


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sessions:
    """The sessions of the series that several GPUs measured."""

    newest_run: int  # that they include, by id
    chains: Mapping[int, SessionChain]  # by the id of the series

    def of(self, series: Iterable[StaleSeries]) -> "_Sessions":
        return replace(self, chains={each.id: self.chains[each.id] for each in series if each.id in self.chains})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """Result of a task. Series too short to estimate their noise wait for that of their machines."""

    analyses: tuple[SeriesAnalysis, ...]
    waiting: tuple[StaleSeries, ...]
    levels: Mapping[int, float]  # of the waiting series
    failed: Mapping[int, str]  # error, by series


def analyse(
    store: Store,
    *,
    only: str | None = None,
    workers: tuple[Executor, int] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Analyse every stale series, then classify the machines; return the count. A kill leaves the rest stale.

    All series that another `ANALYSIS_VERSION` analysed are stale too. `only` names a project, None means all.
    `workers`: an executor and its number of concurrent tasks (executors.py); by default the cores of this machine.
    """
    invalidate_outdated(store, only)
    done = 0
    for project in stale_projects(store):
        if only is not None and project.name != only:
            continue
        if workers is not None:
            done += _analyse_project(store, project, workers, partial(_report, progress, done))
            continue
        count = count_stale(store, project)
        with local_workers(None if count >= _WORTH_PROCESSES else 1) as local:
            done += _analyse_project(store, project, local, partial(_report, progress, done))
    classify_machines(store, only=only)
    return done


def _at_once(stale: int, workers: int) -> int:
    """Series in a task; each worker gets several tasks, so that all finish at about the same time."""
    return min(max(stale // (workers * _TASKS), _FEWEST), _AT_ONCE)


def _report(progress: Callable[[int], None], before: int, more: int) -> None:
    progress(before + more)


def _analyse_project(
    store: Store, project: StaleProject, workers: tuple[Executor, int], progress: Callable[[int], None]
) -> int:
    """Analyse until nothing is stale, or until other processes change the rest faster; they analyse it themselves."""
    done, idle_rounds = 0, 0
    failed: dict[int, str] = {}
    while idle_rounds < _MOST_ROUNDS and (stale := count_stale(store, project)) > len(failed):
        mark_peers_stale(store, project)
        sessions = _sessions(store, project)
        written = 0
        at_once = _at_once(stale, workers[1])
        from .confirmation import confirmed_steps  # with queries: slow to import, and not needed where nothing is stale

        machines, confirmed = MachinePeers(project_id=project.id), confirmed_steps(store, project)
        short: list[_Findings] = []
        answers = in_order(workers, _work, _without(set(failed), _tasks(store, project, at_once, sessions, confirmed)))
        for analyses in _batched(answers, failed, short):
            written += _write(store, project, analyses)
            progress(done + written)
        with_noise = _tasks_with_noise(store, project, machines, short, sessions, confirmed)
        answers = in_order(workers, _work, with_noise)
        for analyses in _batched(answers, failed, []):
            written += _write(store, project, analyses)
            progress(done + written)
        done += written
        idle_rounds = 0 if written else idle_rounds + 1
    for series, name in series_names(store, failed).items():
        _log.error(
            "%s: the analysis failed (%s). The series keeps its previous findings, and the next import tries again."
            " Please report this",
            name,
            failed[series],
        )
    return done


def _batched(
    answers: Iterable[_Findings], failed: dict[int, str], short: list[_Findings]
) -> Iterator[list[SeriesAnalysis]]:
    """Analyses in batches of a transaction; failures and waiting series are added to `failed` and `short`."""
    batch: list[SeriesAnalysis] = []
    for findings in answers:
        failed |= findings.failed
        if findings.waiting:
            short.append(findings)
        batch += findings.analyses
        if len(batch) >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _without(failed: Collection[int], tasks: Iterable[_Task]) -> Iterator[_Task]:
    for task in tasks:
        yield replace(task, series=tuple(stale for stale in task.series if stale.id not in failed))


def _sessions(store: Store, project: StaleProject) -> _Sessions:
    newest = newest_run(store, project)  # before the sessions, which then include it
    from ..store.queries.series_list import series_index
    from .gpu_history import session_chains

    chains: dict[str, SessionChain] = {}
    for machine in machines_of_several_gpus(store, project):
        chains.update(session_chains(store, project.name, machine))
    ids = {entry.series.key: each for each, entry in series_index(store, project.name).items()} if chains else {}
    return _Sessions(newest_run=newest, chains={ids[key]: chain for key, chain in chains.items()})


def _tasks(
    store: Store,
    project: StaleProject,
    at_once: int,
    sessions: _Sessions,
    confirmed: Mapping[int, Sequence[ConfirmedStep]],
) -> Iterator[_Task]:
    after = 0
    while True:
        with store.read() as connection:
            series = fetch_stale(connection, project.id, after=after, limit=at_once)
            if not series:
                return
            current = read_commit_index(connection, project.id)
        after = series[-1].id
        steps = {stale.id: confirmed[stale.id] for stale in series if stale.id in confirmed}
        yield _Task(series=tuple(series), commit_index=current, sessions=sessions.of(series), confirmed=steps)


def _tasks_with_noise(
    store: Store,
    project: StaleProject,
    machines: MachinePeers,
    short: Sequence[_Findings],
    sessions: _Sessions,
    confirmed: Mapping[int, Sequence[ConfirmedStep]],
) -> Iterator[_Task]:
    for findings in short:
        with store.read() as connection:
            noise = machines.scales(connection, dict(findings.levels))
            current = read_commit_index(connection, project.id)
        noise_of = {series.id: noise.get(series.id) for series in findings.waiting}
        own = sessions.of(findings.waiting)
        steps = {number: confirmed[number] for number in noise_of if number in confirmed}
        yield _Task(series=findings.waiting, commit_index=current, noise=noise_of, sessions=own, confirmed=steps)


def _write(store: Store, project: StaleProject, analyses: Sequence[SeriesAnalysis]) -> int:
    with store.write(project.name, of_project=True) as connection:
        return replace_analyses(connection, analyses)


def _work(task: _Task) -> _Findings:
    """Statistics of a task, without I/O."""
    analyses, waiting, levels, failed = [], [], {}, {}
    for stale in task.series:
        try:
            result = _analysis(stale, task)
        except Exception as error:  # a bug or a damaged value must not stop the other series
            failed[stale.id] = located(error)
            continue
        if isinstance(result, SeriesAnalysis):
            analyses.append(result)
        elif result is not None:
            waiting.append(stale)
            levels[stale.id] = result
    return _Findings(analyses=tuple(analyses), waiting=tuple(waiting), levels=levels, failed=failed)


def _analysis(stale: StaleSeries, task: _Task) -> SeriesAnalysis | float | None:
    """Findings of a series, the level of one that waits for the noise of its machine, or None.

    None: runs were added or commits reordered since the sessions were read. It stays stale for the next round.
    """
    points, own_metric = points_of(stale), metric(stale.metric, stale.unit)
    if points is None:
        return SeriesAnalysis(
            series_id=stale.id,
            revision=stale.revision,
            better=own_metric.better,
            changes=(),
            episodes=(),
            newest=None,
            summary=None,
        )
    if len(points) and int(points.run.max()) > task.sessions.newest_run:
        return None
    measured, chain = series_history(points, task.commit_index), task.sessions.chains.get(stale.id)
    history = measured
    if (history.values.value <= 0).any() or len({*history.commits.tolist()}) < len(history):
        chain = None  # no times, or commits without an order
    if chain is not None and not _is_of(history, chain):
        return None
    if chain is not None:
        history = history.adjusted(chain.ratios, chain.broken_commits)
    if stale.id not in task.noise and (level := _short_level(history, own_metric)) is not None:
        return level
    detection = _detect(history, own_metric, task.noise.get(stale.id), chain)
    detection = with_confirmed(detection, task.confirmed.get(stale.id, ()), history.commits)
    detection = _with_slow_decline(detection, [history, measured], own_metric)
    return SeriesAnalysis(
        series_id=stale.id,
        revision=stale.revision,
        better=own_metric.better,
        changes=tuple(_placed_change(change, history) for change in detection.changes),
        episodes=tuple(_placed_episode(episode, history.commits) for episode in detection.episodes),
        newest=history.newest,
        summary=summarise(history.by_commit, detection.changes[-1] if detection.changes else None, own_metric),
        uses_machine_noise=stale.id in task.noise or chain is not None,
        gpu_facts=_gpu_facts(chain) if chain is not None else None,
    )


def _is_of(history: SeriesHistory, chain: SessionChain) -> bool:
    """Whether the chain has the history's sessions in its order of commits."""
    commits = list(dict.fromkeys(chain.commits.tolist()))
    sessions = {*zip(chain.commits.tolist(), chain.gpus, strict=True)}
    return commits == history.commits.tolist() and sessions == history.sessions


def _gpu_facts(chain: SessionChain) -> GpuFacts:
    known = max(chain.broken_commits, default=0)  # from here on, compared with the newest session
    return GpuFacts(
        ratios=(*[None] * known, *chain.ratios[known:].tolist()),
        spread=chain.spread,
        references=int(chain.references[-1]),
    )


def _short_level(history: SeriesHistory, own_metric: Metric) -> float | None:
    """The level of a series in times that is too short to estimate its own noise."""
    if not own_metric.is_time or not 2 <= len(history) < ENOUGH_ALONE:
        return None
    levels = history.levels
    return median(levels) if min(levels) > 0 else None


def _detect(
    history: SeriesHistory, own_metric: Metric, machine_noise: float | None, chain: SessionChain | None
) -> Detection:
    if len(history) >= ENOUGH_ALONE and (own_metric.is_exact or history.is_of_one_gpu):
        return detect_in_levels(history.levels, own_metric)  # `detect` would use the medians too
    return detect(history.runs(), own_metric, machine_noise, chain)


def _with_slow_decline(detection: Detection, histories: Sequence[SeriesHistory], own_metric: Metric) -> Detection:
    """With the decline of GPU-adjusted values, else of the measured ones: what declined may be the machine."""
    steps = np.array([change.index for change in detection.changes], dtype=np.int64)
    for history in histories:
        levels = history.by_commit.level
        numbers = np.flatnonzero(~np.isnan(levels))
        kept = np.flatnonzero(histories[0].by_commit.comparable[numbers])
        levels, dates = levels[numbers[kept]], history.by_commit.date_ms[numbers[kept]]
        if own_metric.is_exact or (levels <= 0).any() or (np.diff(dates) < 0).any():
            break
        found = slow_decline(dates, levels, np.searchsorted(kept, steps).tolist(), own_metric.better)
        if found is not None:
            return replace(detection, episodes=(*detection.episodes, found.among(kept.tolist())))
    return detection


def _placed_change(change: Changepoint, history: SeriesHistory) -> StoredChange:
    commits = history.commits

    def before(index: int) -> int:
        return index - 1 if change.adjusted is not None else history.before(index)

    return StoredChange(
        change=change,
        commit_id=int(commits[change.index]),
        previous_commit_id=int(commits[before(change.index)]),
        range_start_commit_id=int(commits[before(change.first)]),
        range_end_commit_id=int(commits[change.last]),
        posterior=tuple((int(commits[index]), probability) for index, probability in change.posterior),
    )


def _placed_episode(episode: Episode, commits: Ints) -> StoredEpisode:
    return StoredEpisode(
        episode=episode,
        commit_id=int(commits[episode.first]),
        previous_commit_id=int(commits[episode.first - 1]),
        last_commit_id=int(commits[episode.last]),
    )
