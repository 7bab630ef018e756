"""The level of some series at each commit: the median over runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from ..commit_index import read_commit_index
from ..engine import Store
from ..mappers import project_id
from ..project_points import points_of_series
from .series_lines import gpu_ratios
from .series_list import series_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels by key of the series and id of the commit."""

    commits: tuple[int, ...]  # ids, oldest first
    by_key: Mapping[str, Mapping[int, float]]


def levels(store: Store, project: str, keys: Collection[str]) -> Levels:
    """The levels of these series; those without a number are missing."""
    chosen = {
        number: key for number, (series, _) in series_index(store, project).items() if (key := series.key) in keys
    }
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return Levels(commits=(), by_key={})
        index = read_commit_index(connection, owner)
        points = points_of_series(connection, index, chosen)
    found: dict[str, dict[int, float]] = {}
    for number, key in chosen.items():
        if (own := points.of(number)) is not None:
            at = own.start + np.flatnonzero(points.has_number[own])
            pairs = zip(points.points.commit[at].tolist(), points.points.value[at].tolist(), strict=True)
            found[key] = {
                commit: median(value for _, value in runs) for commit, runs in groupby(pairs, key=lambda pair: pair[0])
            }
    order = np.lexsort((index.date_ms, index.position))
    return Levels(commits=tuple(index.commits[order].tolist()), by_key=found)


def adjusting_ratios(store: Store, project: str, keys: Collection[str]) -> Mapping[str, tuple[float | None, ...]]:
    """GPU-adjusted over measured level of each commit with a number, by key: of series of several GPUs."""
    chosen = {
        number: key for number, (series, _) in series_index(store, project).items() if (key := series.key) in keys
    }
    with store.read() as connection:
        return {chosen[number]: tuple(each) for number, each in gpu_ratios(connection, list(chosen)).items()}
