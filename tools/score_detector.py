"""Scores the detector on labelled histories: `python -m tools.score_detector FOLDER [--online]`.

FOLDER holds `synth`, `null`, `asvnoise` and `asvnull` as `<name>_dev.json.gz`: lists of {"values", "cps", "family",
"bucket"}, cps being the first values of new levels. A change is found if one is told within five points of it, each
told change counting once; F1 is pooled over all changes of a set. Online, a series is told point by point.
"""

import gzip
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from warpwatch.dashboard.statistics.changepoint import changepoints

MARGIN = 5  # points
_STEPPED, _PURE_NOISE = ("synth", "asvnoise"), ("null", "asvnull")
_ONLINE_SERIES, _ONLINE_LONGEST, _ONLINE_FIRST, _ONLINE_PATIENCE = 60, 220, 30, 40


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--online", is_flag=True, help="Replay short synthetic series point by point, too.")
@click.option("--jobs", default=2, show_default=True)
def main(folder: Path, online: bool, jobs: int) -> None:
    """Print what the detector finds in labelled histories, and what it costs."""
    with ProcessPoolExecutor(jobs) as pool:
        for name in _STEPPED:
            series = load(folder, name)
            found = list(pool.map(told, [each["values"] for each in series], chunksize=8))
            click.echo(f"{name:9} " + _stepped_line(series, found))
            for label, group in _by_bucket(series, found):
                click.echo(f"  {label:7} " + _stepped_line(*group))
        for name in _PURE_NOISE:
            series = load(folder, name)
            found = list(pool.map(told, [each["values"] for each in series], chunksize=8))
            click.echo(f"{name:9} {_per_thousand(found, series):.2f} false alarms per 1000 points")
        if online:
            replayed = list(pool.map(replay, _online_series(load(folder, "synth"))))
            click.echo("online    " + _online_line(replayed[:_ONLINE_SERIES]))
            click.echo(f"  all {len(replayed)} " + _online_line(replayed))
    for count, first in ((340, 340), (340, 270), (1000, 50), (10000, 50)):
        places = range(first, count, 100)
        click.echo(f"time      {count} points, {len(places)} changes: {1000 * _seconds(count, places):.2g} ms of CPU")


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    """The series of a set; a missing value is the one before it."""
    with gzip.open(folder / f"{name}_dev.json.gz", "rt") as file:
        series: list[dict[str, Any]] = json.load(file)
    for each in series:
        values = [each["values"][0]]
        for value in each["values"][1:]:
            values.append(values[-1] if value is None else value)
        each["values"] = values
    return series


def told(values: Sequence[float]) -> list[int]:
    """The places of the changes that the detector tells."""
    return [change.index for change in changepoints(values)]


def hits(true: Sequence[int], found: Sequence[int]) -> int:
    """How many true changes are told, nearest pairs first, each told change for one true one."""
    pairs = sorted((abs(a - b), a, b) for a in true for b in found if abs(a - b) <= MARGIN)
    taken: tuple[set[int], set[int]] = (set(), set())
    for _, a, b in pairs:
        if a not in taken[0] and b not in taken[1]:
            taken[0].add(a)
            taken[1].add(b)
    return len(taken[0])


def f1(series: Sequence[dict[str, Any]], found: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    """Precision, recall and F1, pooled."""
    hit = sum(hits(each["cps"], places) for each, places in zip(series, found, strict=True))
    claimed, true = sum(map(len, found)), sum(len(each["cps"]) for each in series)
    return hit / max(claimed, 1), hit / max(true, 1), 2 * hit / max(claimed + true, 1)


def _stepped_line(series: Sequence[dict[str, Any]], found: Sequence[Sequence[int]]) -> str:
    return "precision {:.3f}  recall {:.3f}  F1 {:.3f}".format(*f1(series, found))


def _by_bucket(
    series: Sequence[dict[str, Any]], found: Sequence[Sequence[int]]
) -> Iterator[tuple[str, tuple[list[dict[str, Any]], list[Sequence[int]]]]]:
    groups: dict[tuple[float, ...], tuple[list[dict[str, Any]], list[Sequence[int]]]] = defaultdict(lambda: ([], []))
    for each, places in zip(series, found, strict=True):
        groups[tuple(each["bucket"])][0].append(each)
        groups[tuple(each["bucket"])][1].append(places)
    for bucket, group in sorted(groups.items()):
        yield "-".join(f"{edge:g}" for edge in bucket), group


def _per_thousand(found: Sequence[Sequence[int]], series: Sequence[dict[str, Any]]) -> float:
    return 1000 * sum(map(len, found)) / sum(len(each["values"]) for each in series)


def _online_series(series: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Short ones without changes, or with changes of at least two noises.

    The first 60 are what detectors are compared on. A detector raises about ten false reports in them, give or take
    three, so all of them are told, too.
    """
    return [
        each
        for each in series
        if len(each["values"]) <= _ONLINE_LONGEST and (not each["cps"] or each["bucket"][0] >= 2)
    ]


def replay(series: dict[str, Any]) -> tuple[int, list[int | None], int]:
    """False reports ever raised, the delay of every true change (None: never told), and the points replayed."""
    values, true = series["values"], series["cps"]
    false: list[int] = []
    delays: dict[int, int] = {}
    for count in range(_ONLINE_FIRST, len(values) + 1):
        for place in told(values[:count]):
            near = [change for change in true if abs(change - place) <= MARGIN]
            if near:
                change = min(near, key=lambda each: abs(each - place))
                if count > change:
                    delays.setdefault(change, count - change)
            elif all(abs(place - each) > MARGIN for each in false):
                false.append(place)
    return len(false), [delays.get(change) for change in true], len(values) - _ONLINE_FIRST


def _online_line(replayed: Sequence[tuple[int, list[int | None], int]]) -> str:
    delays = [delay for _, of_one, _ in replayed for delay in of_one]
    in_time = [delay for delay in delays if delay is not None and delay <= _ONLINE_PATIENCE]
    false, points = sum(reports for reports, _, _ in replayed), sum(count for _, _, count in replayed)
    return (
        f"median delay {median(in_time):g} points, {len(in_time) / len(delays):.3f} found within {_ONLINE_PATIENCE}, "
        f"{1000 * false / points:.2f} false reports per 1000 points ({false} in {points})"
    )


def _seconds(count: int, places: Sequence[int]) -> float:
    """Of CPU, for a series with changes of three noises at those places: the median of nine times."""
    rng = np.random.default_rng(count)
    values = 100 + rng.standard_normal(count)
    for place in places:
        values[place:] += rng.choice([-3, 3])
    taken = []
    for _ in range(9):
        start = time.process_time()
        told(values.tolist())
        taken.append(time.process_time() - start)
    return median(taken)


if __name__ == "__main__":
    main()
