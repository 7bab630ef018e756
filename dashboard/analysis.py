"""Analyses the series that an import touched: their changepoints, and each in short for the overview."""

from collections.abc import Callable, Sequence
from statistics import median

from warpwatch.dashboard.statistics.detection import detect
from warpwatch.dashboard.statistics.machine_noise import ENOUGH_ALONE
from warpwatch.dashboard.statistics.summary import CommitValues, summarise
from warpwatch.dashboard.store.analysed import (
    SeriesAnalysis,
    StaleSeries,
    replace_analyses,
    stale_projects,
    take_stale,
)
from warpwatch.dashboard.store.machine_peers import MachinePeers
from warpwatch.dashboard.store.store import Store

_AT_ONCE = 100  # series in one transaction


def analyse(store: Store, *, progress: Callable[[int], None] = lambda done: None) -> int:
    """Analyses every stale series of the store; returns how many. A kill leaves the rest stale for the next time."""
    done = 0
    for project in stale_projects(store):
        machines = MachinePeers(project_id=project.id)
        while True:
            # Values and findings in one transaction: an import between the two would be marked as seen.
            with store.write(project.name) as connection:
                taken = take_stale(connection, project.id, _AT_ONCE)
                noise = machines.scales(connection, _short_levels(taken))
                replace_analyses(connection, [_analyse(series, noise.get(series.id)) for series in taken])
            if not taken:
                break
            done += len(taken)
            progress(done)
    return done


def _short_levels(taken: Sequence[StaleSeries]) -> dict[int, float]:
    """The levels of the series in times that are too short to tell their own noise."""
    levels = {
        series.id: [median(run.value for run in commit.runs) for commit in series.commits if commit.runs]
        for series in taken
        if series.metric.is_time
    }
    return {key: median(found) for key, found in levels.items() if 2 <= len(found) < ENOUGH_ALONE and min(found) > 0}


def _analyse(series: StaleSeries, machine_noise: float | None) -> SeriesAnalysis:
    numbers = [values for values in series.commits if values.runs]
    changes = detect([values.runs for values in numbers], series.metric, machine_noise)
    return SeriesAnalysis(
        series=series,
        better=series.metric.better,
        changes=tuple((c, numbers[c.index].commit_id, _before(numbers, c.index).commit_id) for c in changes),
        summary=summarise(series.commits, changes, series.metric) if series.commits else None,
    )


def _before(numbers: Sequence[CommitValues], index: int) -> CommitValues:
    """The last commit before a change that one of its cards measured."""
    earlier = reversed(numbers[:index])
    return next((values for values in earlier if values.cards & numbers[index].cards), numbers[index - 1])
