"""Score the detector on labelled histories: `python -m tools.score_detector FOLDER [--online]`.

FOLDER holds `synth`, `null`, `asvnoise` and `asvnull` as `<name>_dev.json.gz`: lists of {"values", "cps", "family",
"bucket"}, cps being the first values of new levels. A change is found if one is reported within five points of it, each
report counting once; F1 is pooled over all changes of a set. Online, a series is replayed point by point.

Sets of persons' annotations are scored too where FOLDER has them, `asvhand` and `tcpd` as `<name>.json[.gz]`: {name:
{"values", "annotations": {person: [index, ...]}}}; F1 and covering are those of van den Burg and Williams
("An Evaluation of Change Point Detection Algorithms", arXiv:2003.06222), means over the series. Each set is scored
without a minimum change, which planted steps of any size need, and with the one of reports (statistics/detection.py).
"""

import gzip
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

import click
import numpy as np

from warpwatch.dashboard.statistics.changepoint import find_changes
from warpwatch.dashboard.statistics.detection import SMALLEST_CHANGE, SMALLEST_EFFECT

MARGIN = 5  # points
_STEPPED, _PURE_NOISE, _ANNOTATED = ("synth", "asvnoise"), ("null", "asvnull"), ("asvhand", "tcpd")
_ONLINE_SERIES, _ONLINE_LONGEST, _ONLINE_FIRST, _ONLINE_PATIENCE = 60, 220, 30, 40


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--online", is_flag=True, help="Replay short synthetic series point by point, too.")
@click.option("--jobs", default=2, show_default=True)
def main(folder: Path, online: bool, jobs: int) -> None:
    """Print the detector's accuracy on labelled histories, and its CPU time."""
    with ProcessPoolExecutor(jobs) as pool:
        for name in _STEPPED:
            series = load(folder, name)
            found = list(pool.map(detected, [one["values"] for one in series], chunksize=8))
            click.echo(f"{name:9} " + _stepped_line(series, found))
            for label, group in _by_bucket(series, found):
                click.echo(f"  {label:7} " + _stepped_line(*group))
            found = list(pool.map(reported, [one["values"] for one in series], chunksize=8))
            click.echo("  reports " + _stepped_line(series, found))
        for name in _PURE_NOISE:
            series = load(folder, name)
            for label, detector in (name, detected), ("  reports", reported):
                found = list(pool.map(detector, [one["values"] for one in series], chunksize=8))
                click.echo(f"{label:9} {_per_thousand(found, series):.2f} false alarms per 1000 points")
        for name in _ANNOTATED:
            if (annotated := load_annotated(folder, name)) is not None:
                for label, detector in (name, detected), ("  reports", reported):
                    found = list(pool.map(detector, [one["values"] for one in annotated], chunksize=8))
                    pairs = list(zip(annotated, found, strict=True))
                    f1_mean = mean(annotated_f1(one["annotations"].values(), indices) for one, indices in pairs)
                    cover = mean(
                        covering(one["annotations"].values(), indices, len(one["values"])) for one, indices in pairs
                    )
                    click.echo(f"{label:9} F1 {f1_mean:.3f}  covering {cover:.3f}")
        if online:
            replayed = list(pool.map(replay, _online_series(load(folder, "synth"))))
            click.echo("online    " + _online_line(replayed[:_ONLINE_SERIES]))
            click.echo(f"  all {len(replayed)} " + _online_line(replayed))
    for count, first in ((340, 340), (340, 270), (1000, 50), (10000, 50)):
        places = range(first, count, 100)
        click.echo(f"time      {count} points, {len(places)} changes: {1000 * _seconds(count, places):.2g} ms of CPU")


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    """The series of a set, with missing values replaced by the previous one."""
    with gzip.open(folder / f"{name}_dev.json.gz", "rt") as file:
        series: list[dict[str, Any]] = json.load(file)
    return [_filled(one) for one in series]


def load_annotated(folder: Path, name: str) -> list[dict[str, Any]] | None:
    """The series of a set of annotations, filled as in `load`; None if the folder has no such set."""
    packed, plain = folder / f"{name}.json.gz", folder / f"{name}.json"
    if not packed.exists() and not plain.exists():
        return None
    with gzip.open(packed, "rt") if packed.exists() else plain.open() as file:
        return [_filled(one) for one in json.load(file).values()]


def _filled(series: dict[str, Any]) -> dict[str, Any]:
    values: list[float] = []
    first = next(value for value in series["values"] if value is not None)
    for value in series["values"]:
        values.append(value if value is not None else values[-1] if values else first)
    return {**series, "values": values}


def detected(values: Sequence[float]) -> list[int]:
    """Indices of the changepoints of any size."""
    return [change.index for change in find_changes(values).changes]


def reported(values: Sequence[float]) -> list[int]:
    """Indices of the changepoints that the dashboard reports by default."""
    found = find_changes(values, smallest_change=SMALLEST_CHANGE, smallest_effect=SMALLEST_EFFECT).changes
    return [change.index for change in found]


def annotated_f1(annotations: Iterable[Sequence[int]], found: Sequence[int]) -> float:
    """F1 of precision over all persons' changes and mean recall over persons; index 0 counts as a change of each."""
    persons = [{0, *each} for each in annotations]
    claimed = {0, *found}
    precision = hits(sorted(set().union(*persons)), sorted(claimed)) / len(claimed)
    recall = mean(hits(sorted(each), sorted(claimed)) / len(each) for each in persons)
    return 2 * precision * recall / (precision + recall)


def covering(annotations: Iterable[Sequence[int]], found: Sequence[int], count: int) -> float:
    """Mean over persons: the Jaccard index of each of their segments with the reported one most like it, by length."""
    reports = _segments(found, count)
    return mean(
        sum(
            (end - start) * max(_jaccard((start, end), other) for other in reports)
            for start, end in _segments(each, count)
        )
        / count
        for each in annotations
    )


def _segments(edges: Iterable[int], count: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise([0, *sorted({edge for edge in edges if 0 < edge < count}), count]))


def _jaccard(one: tuple[int, int], other: tuple[int, int]) -> float:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(common, 0) / (max(one[1], other[1]) - min(one[0], other[0]))


def hits(true: Sequence[int], found: Sequence[int]) -> int:
    """Number of true changes that are found, nearest pairs first, each report for one true change."""
    pairs = sorted((abs(a - b), a, b) for a in true for b in found if abs(a - b) <= MARGIN)
    matched: tuple[set[int], set[int]] = (set(), set())
    for _, a, b in pairs:
        if a not in matched[0] and b not in matched[1]:
            matched[0].add(a)
            matched[1].add(b)
    return len(matched[0])


def f1(series: Sequence[dict[str, Any]], found: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    """Precision, recall and F1, pooled."""
    hit = sum(hits(one["cps"], indices) for one, indices in zip(series, found, strict=True))
    claimed, true = sum(map(len, found)), sum(len(one["cps"]) for one in series)
    return hit / max(claimed, 1), hit / max(true, 1), 2 * hit / max(claimed + true, 1)


def _stepped_line(series: Sequence[dict[str, Any]], found: Sequence[Sequence[int]]) -> str:
    return "precision {:.3f}  recall {:.3f}  F1 {:.3f}".format(*f1(series, found))


def _by_bucket(
    series: Sequence[dict[str, Any]], found: Sequence[Sequence[int]]
) -> Iterator[tuple[str, tuple[list[dict[str, Any]], list[Sequence[int]]]]]:
    groups: dict[tuple[float, ...], tuple[list[dict[str, Any]], list[Sequence[int]]]] = defaultdict(lambda: ([], []))
    for one, indices in zip(series, found, strict=True):
        groups[tuple(one["bucket"])][0].append(one)
        groups[tuple(one["bucket"])][1].append(indices)
    for bucket, group in sorted(groups.items()):
        yield "-".join(f"{edge:g}" for edge in bucket), group


def _per_thousand(found: Sequence[Sequence[int]], series: Sequence[dict[str, Any]]) -> float:
    return 1000 * sum(map(len, found)) / sum(len(one["values"]) for one in series)


def _online_series(series: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Short series without changes, or with changes of at least two noises.

    Detectors are compared on the first 60. They have about 10 ± 3 false reports, so all series are scored too.
    """
    return [
        one for one in series if len(one["values"]) <= _ONLINE_LONGEST and (not one["cps"] or one["bucket"][0] >= 2)
    ]


def replay(series: dict[str, Any]) -> tuple[int, list[int | None], int]:
    """Number of false reports, delay of every true change (None: never found), and number of points replayed."""
    values, true = series["values"], series["cps"]
    false: list[int] = []
    delays: dict[int, int] = {}
    for count in range(_ONLINE_FIRST, len(values) + 1):
        for index in detected(values[:count]):
            near = [change for change in true if abs(change - index) <= MARGIN]
            if near:
                change = min(near, key=lambda candidate: abs(candidate - index))
                if count > change:
                    delays.setdefault(change, count - change)
            elif all(abs(index - other) > MARGIN for other in false):
                false.append(index)
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
    """CPU seconds for a series with changes of three noises at `places`: the median of nine runs."""
    rng = np.random.default_rng(count)
    values = 100 + rng.standard_normal(count)
    for place in places:
        values[place:] += rng.choice([-3, 3])
    times = []
    for _ in range(9):
        start = time.process_time()
        detected(values.tolist())
        times.append(time.process_time() - start)
    return median(times)


if __name__ == "__main__":
    main()
