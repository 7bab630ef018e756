"""Analyses the series that an import touched: their changepoints, and each in short for the overview.

The statistics are pure functions, so that they run wherever an executor runs them: stored values go out, findings come
back. Nobody waits for that: values are read in one transaction and findings written in another, which passes over what
an import has changed in between. That stays stale, and is taken again. So does a series whose analysis fails, with the
findings that it had: the log says which and how, and the others go on.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from ..executors import in_order, local_workers
from ..model.error_location import located
from ..model.metric import Metric, metric
from ..statistics.changepoint import Changepoint, Told
from ..statistics.detection import tell_commits, tell_levels
from ..statistics.episodes import Episode
from ..statistics.level_path import Places
from ..statistics.machine_noise import ENOUGH_ALONE
from ..statistics.summary import summarise
from ..store.analysis import (
    SeriesAnalysis,
    StaleProject,
    StaleSeries,
    StoredChange,
    StoredEpisode,
    count_stale,
    fetch_stale,
    invalidate_outdated,
    mark_peers_stale,
    points_of,
    replace_analyses,
    series_names,
    stale_projects,
)
from ..store.commit_index import CommitIndex, ProjectCommitIndex
from ..store.engine import Store
from ..store.machine_peers import MachinePeers
from ..store.series_history import SeriesHistory, series_history
from .classify import judge

_log = logging.getLogger(__name__)
_AT_ONCE, _FEWEST = 200, 50  # series in one task: enough to be worth sending, and in a transaction,
_TASKS = 20  # of each worker: few enough in one to share them out
_MOST_IN_VAIN = 3  # rounds after which nothing was written
_WORTH_PROCESSES = 2000  # series: below, starting and feeding processes costs more than the second or two they save


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """Some series, and what their histories need beside them."""

    series: tuple[StaleSeries, ...]
    commit_index: CommitIndex
    noise: Mapping[int, float | None] = field(default_factory=dict)  # of their machines, where it was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """What became of a task. Series too short to tell their own noise wait for that of their machines."""

    found: tuple[SeriesAnalysis, ...]
    waiting: tuple[StaleSeries, ...]
    levels: Mapping[int, float]  # of those that wait
    failed: Mapping[int, str]  # how, of each series that no findings come of


def analyse(
    store: Store,
    *,
    only: str | None = None,
    workers: tuple[Executor, int] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Analyses every stale series of the store; returns how many. A kill leaves the rest stale for the next time.

    Stale are also all series that were analysed by other rules than this code's (`ANALYSIS_VERSION`). What is found is
    then judged together, machine by machine.

    `only` names a project, if not all are meant. `workers` are an executor and how many tasks it does at once
    (executors.py); by default this machine's cores.
    """
    invalidate_outdated(store, only)
    done = 0
    for project in stale_projects(store):
        if only is not None and project.name != only:
            continue
        mark_peers_stale(store, project)
        if workers is not None:
            done += _analyse_project(store, project, workers, partial(_tell, progress, done))
            continue
        count = count_stale(store, project)
        with local_workers(None if count >= _WORTH_PROCESSES else 1) as local:
            done += _analyse_project(store, project, local, partial(_tell, progress, done))
    judge(store, only=only)
    return done


def _at_once(stale: int, workers: int) -> int:
    """Series in a task: each worker gets several, so that all finish at about the same time."""
    return min(max(stale // (workers * _TASKS), _FEWEST), _AT_ONCE)


def _tell(progress: Callable[[int], None], before: int, more: int) -> None:
    progress(before + more)


def _analyse_project(
    store: Store, project: StaleProject, workers: tuple[Executor, int], progress: Callable[[int], None]
) -> int:
    """Until nothing is stale, or others change what remains as fast as it is analysed: they will analyse it too."""
    done, in_vain = 0, 0
    failed: dict[int, str] = {}
    while in_vain < _MOST_IN_VAIN and (stale := count_stale(store, project)) > len(failed):
        written = 0
        at_once = _at_once(stale, workers[1])
        machines = MachinePeers(project_id=project.id)
        short: list[_Findings] = []
        answers = in_order(workers, _work, _but_for(set(failed), _tasks(store, project, at_once)))
        for found in _gathered(answers, failed, short):
            written += _write(store, project, found)
            progress(done + written)
        answers = in_order(workers, _work, _tasks_with_noise(store, project, machines, short))
        for found in _gathered(answers, failed, []):
            written += _write(store, project, found)
            progress(done + written)
        done += written
        in_vain = 0 if written else in_vain + 1
    for series, name in series_names(store, failed).items():
        _log.error(
            "%s: the analysis failed (%s); it keeps its earlier findings, and is tried again with the next"
            " import. Please report this",
            name,
            failed[series],
        )
    return done


def _gathered(
    answers: Iterable[_Findings], failed: dict[int, str], short: list[_Findings]
) -> Iterator[list[SeriesAnalysis]]:
    """What is found, of as many series at a time as a transaction is worth; what else became of them goes into the
    other two."""
    together: list[SeriesAnalysis] = []
    for findings in answers:
        failed |= findings.failed
        if findings.waiting:
            short.append(findings)
        together += findings.found
        if len(together) >= _AT_ONCE:
            yield together
            together = []
    if together:
        yield together


def _but_for(failed: Collection[int], tasks: Iterable[_Task]) -> Iterator[_Task]:
    for task in tasks:
        yield replace(task, series=tuple(stale for stale in task.series if stale.id not in failed))


def _tasks(store: Store, project: StaleProject, at_once: int) -> Iterator[_Task]:
    after, its_calendar = 0, ProjectCommitIndex(project.id)
    while True:
        with store.read() as connection:
            taken = fetch_stale(connection, project.id, after=after, limit=at_once)
            if not taken:
                return
            now = its_calendar.read(connection)
        after = taken[-1].id
        yield _Task(series=tuple(taken), commit_index=now)


def _tasks_with_noise(
    store: Store, project: StaleProject, machines: MachinePeers, short: Sequence[_Findings]
) -> Iterator[_Task]:
    its_calendar = ProjectCommitIndex(project.id)
    for findings in short:
        with store.read() as connection:
            noise = machines.scales(connection, dict(findings.levels))
            now = its_calendar.read(connection)
        told = {series.id: noise.get(series.id) for series in findings.waiting}
        yield _Task(series=findings.waiting, commit_index=now, noise=told)


def _write(store: Store, project: StaleProject, found: Sequence[SeriesAnalysis]) -> int:
    with store.write(project.name, of_project=True) as connection:
        return replace_analyses(connection, found)


def _work(task: _Task) -> _Findings:
    """The statistics of a task. Reads and writes nothing."""
    found, waiting, levels, failed = [], [], {}, {}
    for stale in task.series:
        try:
            one = _of_one(stale, task)
        except Exception as error:  # a fault of ours, or of the disk's: the other series are well
            failed[stale.id] = located(error)
            continue
        if isinstance(one, SeriesAnalysis):
            found.append(one)
        else:
            waiting.append(stale)
            levels[stale.id] = one
    return _Findings(found=tuple(found), waiting=tuple(waiting), levels=levels, failed=failed)


def _of_one(stale: StaleSeries, task: _Task) -> SeriesAnalysis | float:
    """The findings, or the level of a series that waits for the noise of its machine."""
    points, its_metric = points_of(stale), metric(stale.metric, stale.unit)
    if points is None:
        return SeriesAnalysis(
            series_id=stale.id,
            revision=stale.revision,
            better=its_metric.better,
            changes=(),
            episodes=(),
            newest=None,
            summary=None,
        )
    history = series_history(points, task.commit_index)
    if stale.id not in task.noise and (level := _short_level(history, its_metric)) is not None:
        return level
    found = _detect(history, its_metric, task.noise.get(stale.id))
    return SeriesAnalysis(
        series_id=stale.id,
        revision=stale.revision,
        better=its_metric.better,
        changes=tuple(_placed_change(change, history) for change in found.changes),
        episodes=tuple(_placed_episode(episode, history.commits) for episode in found.episodes),
        newest=history.newest,
        summary=summarise(history.by_commit, found.changes[-1] if found.changes else None, its_metric),
        uses_machine_noise=stale.id in task.noise,
    )


def _short_level(history: SeriesHistory, its_metric: Metric) -> float | None:
    """The level of a series in times that is too short to estimate its own noise."""
    if not its_metric.is_time or not 2 <= len(history) < ENOUGH_ALONE:
        return None
    levels = history.levels
    return median(levels) if min(levels) > 0 else None


def _detect(history: SeriesHistory, its_metric: Metric, machine_noise: float | None) -> Told:
    if len(history) >= ENOUGH_ALONE and (its_metric.is_exact or history.is_of_one_gpu):
        return tell_levels(history.levels, its_metric)  # the single runs would not be looked at
    return tell_commits(history.runs(), its_metric, machine_noise)


def _placed_change(change: Changepoint, history: SeriesHistory) -> StoredChange:
    commits = history.commits
    return StoredChange(
        change=change,
        commit_id=int(commits[change.index]),
        previous_commit_id=int(commits[history.before(change.index)]),
        range_start_commit_id=int(commits[history.before(change.first)]),
        range_end_commit_id=int(commits[change.last]),
        posterior=tuple((int(commits[index]), probability) for index, probability in change.posterior),
    )


def _placed_episode(episode: Episode, commits: Places) -> StoredEpisode:
    return StoredEpisode(
        episode=episode,
        commit_id=int(commits[episode.first]),
        previous_commit_id=int(commits[episode.first - 1]),
        last_commit_id=int(commits[episode.last]),
    )
