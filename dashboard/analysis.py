"""Analyses the series that an import touched: their changepoints, and each in short for the overview.

The statistics are pure functions, so that they run wherever an executor runs them: stored values go out, findings come
back. Nobody waits for that: values are read in one transaction and findings written in another, which passes over what
an import has changed in between. That stays stale, and is taken again. So does a series whose analysis fails, with the
findings that it had: the log says which and how, and the others go on.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from warpwatch.dashboard.continued import bring_up_to_date
from warpwatch.dashboard.faults import located
from warpwatch.dashboard.judgement import judge
from warpwatch.dashboard.metrics import metric
from warpwatch.dashboard.parallel import a_few_workers, in_order, local_workers
from warpwatch.dashboard.statistics.changepoint import Changepoint
from warpwatch.dashboard.statistics.detection import tell_commits, tell_levels
from warpwatch.dashboard.statistics.episodes import Episode
from warpwatch.dashboard.statistics.level_path import Places
from warpwatch.dashboard.statistics.machine_noise import ENOUGH_ALONE
from warpwatch.dashboard.statistics.summary import CommitValues, summarise
from warpwatch.dashboard.store.analysed import (
    PlacedChange,
    PlacedEpisode,
    SeriesAnalysis,
    Stale,
    StaleProject,
    StaleSeries,
    count_stale,
    follow_rules,
    history_of,
    newest_of,
    points_of,
    replace_analyses,
    stale_projects,
    take_stale,
)
from warpwatch.dashboard.store.calendar import Calendar, ProjectCalendar
from warpwatch.dashboard.store.machine_peers import MachinePeers
from warpwatch.dashboard.store.plain_history import PlainHistory, plain_history, plain_summary
from warpwatch.dashboard.store.series_names import series_names
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.store.tails import tail_of

_log = logging.getLogger(__name__)
_AT_ONCE, _FEWEST = 200, 50  # series in one task: enough to be worth sending, and in a transaction,
_TASKS = 20  # of each worker: few enough in one to share them out
_MOST_IN_VAIN = 3  # rounds after which nothing was written
_WORTH_A_COPY = 60  # series, from which a copy of this process saves more than it takes
_WORTH_PROCESSES = 300  # and other processes are done sooner than they start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """Some series, and what their histories need beside them."""

    series: tuple[Stale, ...]
    calendar: Calendar
    noise: Mapping[int, float | None] = field(default_factory=dict)  # of their machines, where it was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """What became of a task. Series too short to tell their own noise wait for that of their machines."""

    found: tuple[SeriesAnalysis, ...]
    waiting: tuple[Stale, ...]
    levels: Mapping[int, float]  # of those that wait
    failed: Mapping[int, str]  # how, of each series that no findings come of


def analyse(
    store: Store, *, only: str | None = None, workers: tuple[Executor, int] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> int:  # fmt: skip
    """Analyses every stale series of the store; returns how many. A kill leaves the rest stale for the next time.

    Stale are also all series that were analysed by other rules than this code's (`ANALYSIS_VERSION`). What is found is
    then judged together, machine by machine.

    `only` names a project, if not all are meant. `workers` are an executor and how many tasks it does at once
    (parallel.py); by default this machine's cores.
    """
    follow_rules(store, only)
    done = 0
    for project in stale_projects(store):
        if only is not None and project.name != only:
            continue
        done += bring_up_to_date(store, project)
        if workers is not None:
            done += _analyse_project(store, project, workers, partial(_tell, progress, done))
            continue
        count = count_stale(store, project)
        with _local_workers(count) as local:
            done += _analyse_project(store, project, local, partial(_tell, progress, done))
    judge(store, only=only)
    return done


def _local_workers(stale: int) -> AbstractContextManager[tuple[Executor, int]]:
    """As many as so many series are worth."""
    if stale >= _WORTH_PROCESSES:
        return local_workers()
    return a_few_workers() if stale >= _WORTH_A_COPY else local_workers(1)


def _at_once(stale: int, workers: int) -> int:
    """Series in a task: a few are shared out at once, of many each worker gets several tasks."""
    if stale < _WORTH_PROCESSES:
        return -(-stale // workers)
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
        _log.error("%s: the analysis failed (%s); it keeps its earlier findings, and is tried again with the next"
                   " import. Please report this", name, failed[series])  # fmt: skip
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
    after, its_calendar = 0, ProjectCalendar(project.id)
    while True:
        with store.read() as connection:
            taken = take_stale(connection, project.id, after=after, limit=at_once)
            if not taken:
                return
            now = its_calendar.read(connection)
        after = taken[-1].id
        yield _Task(series=tuple(taken), calendar=now)


def _tasks_with_noise(
    store: Store, project: StaleProject, machines: MachinePeers, short: Sequence[_Findings]
) -> Iterator[_Task]:
    its_calendar = ProjectCalendar(project.id)
    for findings in short:
        with store.read() as connection:
            noise = machines.scales(connection, dict(findings.levels))
            now = its_calendar.read(connection)
        told = {series.id: noise.get(series.id) for series in findings.waiting}
        yield _Task(series=findings.waiting, calendar=now, noise=told)


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


def _of_one(stale: Stale, task: _Task) -> SeriesAnalysis | float:
    """The findings, or the level of a series that waits for the noise of its machine."""
    points = points_of(stale)
    plain = plain_history(points, task.calendar) if points is not None else None
    if plain is not None and (len(plain.numbers) >= ENOUGH_ALONE or not len(plain.numbers)):
        return _analyse_plain(stale, plain)
    series = history_of(stale, points, task.calendar)
    level = None if stale.id in task.noise else _short_level(series)
    return _analyse(series, stale.revision, task.noise.get(stale.id)) if level is None else level


def _short_level(series: StaleSeries) -> float | None:
    """The level of a series in times that is too short to tell its own noise."""
    if not series.metric.is_time or sum(bool(commit.runs) for commit in series.commits) >= ENOUGH_ALONE:
        return None
    levels = [median(run.value for run in commit.runs) for commit in series.commits if commit.runs]
    return median(levels) if len(levels) >= 2 and min(levels) > 0 else None


def _analyse(series: StaleSeries, revision: int, machine_noise: float | None) -> SeriesAnalysis:
    numbers = [values for values in series.commits if values.runs]
    told = tell_commits([values.runs for values in numbers], series.metric, machine_noise)
    return SeriesAnalysis(
        series_id=series.id,
        revision=revision,
        better=series.metric.better,
        changes=tuple(
            PlacedChange(
                change=change,
                commit_id=numbers[change.index].commit_id,
                previous_commit_id=_before(numbers, change.index).commit_id,
                range_start_commit_id=_before(numbers, change.first).commit_id,
                range_end_commit_id=numbers[change.last].commit_id,
                posterior=tuple((numbers[place].commit_id, held) for place, held in change.posterior),
            )
            for change in told.changes
        ),
        episodes=tuple(_placed_episode(each, [values.commit_id for values in numbers]) for each in told.episodes),
        newest=series.newest,
        summary=summarise(series.commits, told.changes, series.metric) if series.commits else None,
    )


def _analyse_plain(stale: Stale, history: PlainHistory) -> SeriesAnalysis:
    """What `_analyse` finds, without records of the commits."""
    its_metric = metric(stale.metric, stale.unit)
    told = tell_levels(history.levels(), its_metric)
    commits = history.points.commit[history.numbers]
    tail = tail_of(history, told.changes, its_metric)
    return SeriesAnalysis(
        series_id=stale.id,
        revision=stale.revision,
        better=its_metric.better,
        changes=tuple(_placed(change, commits) for change in told.changes),
        episodes=tuple(_placed_episode(each, commits) for each in told.episodes),
        newest=newest_of(history.points),
        summary=plain_summary(history, told.changes[-1] if told.changes else None, its_metric),
        tail=(int(history.points.run.max()), tail) if tail is not None else None,
    )


def _placed(change: Changepoint, commits: Places) -> PlacedChange:
    """A change among commits that each have one number."""
    return PlacedChange(
        change=change,
        commit_id=int(commits[change.index]),
        previous_commit_id=int(commits[change.index - 1]),
        range_start_commit_id=int(commits[change.first - 1]),
        range_end_commit_id=int(commits[change.last]),
        posterior=tuple((int(commits[place]), held) for place, held in change.posterior),
    )


def _placed_episode(episode: Episode, commits: Places | Sequence[int]) -> PlacedEpisode:
    return PlacedEpisode(
        episode=episode,
        commit_id=int(commits[episode.first]),
        previous_commit_id=int(commits[episode.first - 1]),
        last_commit_id=int(commits[episode.last]),
    )


def _before(numbers: Sequence[CommitValues], index: int) -> CommitValues:
    """The last commit before a change that one of its cards measured."""
    earlier = reversed(numbers[:index])
    return next((values for values in earlier if values.cards & numbers[index].cards), numbers[index - 1])
