"""A change of the rules reaches every store: its version is raised, and all series are analysed anew."""

import hashlib
import json
import math
import random
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import astuple
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, select, update

from tests.asv_results import AsvResults
from tests.dashboard.suite_results import Suite
from tests.stored import stored_history
from tools.store_state import state_of
from warpwatch.dashboard.analysis.classify import classify_machines
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.model.metric import Better, metric
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.statistics.detection import ANALYSIS_VERSION, detect
from warpwatch.dashboard.statistics.gpu_history import SessionChain
from warpwatch.dashboard.statistics.slow_decline import slow_decline
from warpwatch.dashboard.store import Store, queries, schema

# Of each version the digest of its answers. Where yours differs, the findings in people's histories have changed: raise
# ANALYSIS_VERSION and add a line. Never change a line: stores that were analysed so would keep their old findings.
ANSWERS = {
    1: "6090f860788578c5",
    2: "f83e60d83a464957",
    3: "5b01dda6b9b49189",
    4: "a5b7c496a8aa2550",
    5: "ba6adb2798f32e2b",
    6: "6c855d3afcbdea3a",
}


def _histories() -> Iterator[tuple[str, str, float | None, list[list[float]]]]:
    """Name, unit, the machine's noise where it is known, and values by commit: a history for each rule."""
    dice, normal = random.Random(7), NormalDist()

    def noise(scale: float) -> float:
        return math.exp(scale * normal.inv_cdf(dice.uniform(1e-9, 1 - 1e-9)))

    def series(count: int, scale: float, level: Any) -> list[list[float]]:
        return [[float(f"{level(n) * noise(scale):.9g}")] for n in range(count)]

    for scale in (0.002, 0.01, 0.03):
        yield "latency", "s", None, series(300, scale, lambda n: 1e-3)
        for step in (2, 5, 12):
            yield "latency", "s", None, series(160, scale, lambda n, s=step, x=scale: 1e-3 * (1 + s * x * (n >= 90)))
        yield "latency", "s", None, series(200, scale, lambda n, x=scale: 1e-3 * (1 + 10 * x * (60 <= n < 66)))
        yield "latency", "s", None, series(240, scale, lambda n, x=scale: 1e-3 * (1 + 8 * x * n / 240))
        yield "latency", "s", None, series(240, scale, lambda n, x=scale: 1e-3 * (1 + 6 * x * (n // 40 % 2)))
        yield "latency", "s", None, series(60, scale, lambda n, x=scale: 1e-3 * (1 + 15 * x * (n >= 57)))
        yield "latency", "s", 0.5 * scale, series(12, scale, lambda n, x=scale: 1e-3 * (1 + 12 * x * (n >= 8)))
        yield "latency", "s", None, series(6, scale, lambda n: 1e-3 * (1 + 0.5 * (n >= 3)))
        yield "bandwidth", "B/s", None, series(160, scale, lambda n, x=scale: 1e12 * (1 - 6 * x * (n >= 50)))
    yield "latency", "s", None, series(2000, 0.04, lambda n: 1e-3 * (1 + 0.018 * (n >= 1000)))
    yield "latency", "s", 0.0, [[1e-3 * (1 + 0.012 * (n >= 5))] for n in range(9)]
    runs = [[value[0], value[0] * 1.001, value[0] * 0.999] for value in series(40, 0.004, lambda n: 1 + 0.1 * (n > 20))]
    yield "time", "seconds", None, runs
    yield "registers", "registers", None, [[40.0 + 8 * (n > 5)] for n in range(12)]
    yield "memory", "bytes", None, [[4096.0 * (1 + (n > 30)) + 8 * (n % 2)] for n in range(60)]
    yield "track", "", None, [[float(3 + (n > 20) + (n > 25))] for n in range(40)]


def _rounded(*numbers: float) -> list[str]:
    """As far as every machine's mathematics agree."""
    return [f"{number:.4g}" if abs(number) > 1e-9 else "0" for number in numbers]


def _detected() -> list[Any]:
    found: list[Any] = []
    for name, unit, machine_noise, values in _histories():
        spread = 0.0 if machine_noise == 0 else 0.001
        commits = [
            [RunValue(value=x, q25=x * (1 - spread), q75=x * (1 + spread), sample_count=10, gpu=None) for x in its]
            for its in values
        ]
        detection = detect(commits, metric(name, unit), machine_noise)
        for change in detection.changes:
            numbers = _rounded(change.before, change.after, change.magnitude, change.ci_low, change.ci_high)
            found.append([name, change.index, change.first, change.last, *numbers, round(change.p_adjusted, 4)])
        for each in detection.episodes:
            numbers = _rounded(each.before, each.after, each.magnitude)
            found.append([name, each.kind.value, each.first, each.last, *numbers])
    return found


def _detected_on_several_gpus() -> list[Any]:
    """What is found in the sessions of four GPUs: a step, a transient, a small step, a break."""
    dice = random.Random(11)
    found: list[Any] = []
    for count in (12, 60):
        level = [1.0 if n < 5 else 0.8 if n != 8 else 1.1 for n in range(count)]
        values = np.array([each * math.exp(dice.gauss(0, 0.003)) for each in level])
        deviation = np.concatenate([[math.nan], np.diff(np.log(values))])
        deviation[10] = math.nan
        error = np.full(count, 0.005)
        chain = SessionChain(
            commits=np.arange(count),
            gpus=tuple(f"GPU-{n % 4}" for n in range(count)),
            levels=values,
            deviation=deviation,
            variance=error**2 / 25,
            scatter=error,
            df=np.full(count, 4),
            q_value=np.where(np.abs(deviation) > 0.05, 1e-3, 1.0),
            family=np.full(count, 100),
            references=np.full(count, 50),
        )
        runs = [[RunValue(value=value, gpu=gpu)] for value, gpu in zip(values.tolist(), chain.gpus, strict=True)]
        detection = detect(runs, metric("latency", "s"), None, chain)
        for change in detection.changes:
            numbers = _rounded(change.before, change.after, change.magnitude, change.ci_low, change.ci_high)
            adjusted = None if change.adjusted is None else astuple(change.adjusted)
            found.append([change.index, change.first, change.last, *numbers, adjusted])
        found += [[each.kind.value, each.first, each.last, *_rounded(each.magnitude)] for each in detection.episodes]
    return found


def _slow_declines() -> list[Any]:
    """What is found in a year of steps of half a per cent, of either direction, in three noises."""
    dice, normal = random.Random(3), NormalDist()
    dates = np.arange(200) * 150_000_000
    found: list[Any] = []
    for scale in (0.002, 0.01, 0.03):
        levels = [1.005 ** (n // 18) * math.exp(scale * normal.inv_cdf(dice.uniform(1e-9, 1))) for n in range(200)]
        for better in Better:
            decline = slow_decline(dates, np.array(levels), [100], better)
            found.append(
                None
                if decline is None
                else [decline.first, *_rounded(decline.magnitude, decline.ci_low, decline.ci_high)]
            )
    return found


def _classified(store: Store, asv: AsvResults) -> list[Any]:
    """The findings on a machine on which a kernel, then the machine, and then both moved."""
    history = Suite(asv, workloads=("w1", "w2", "w3"), scatter=0.004)
    for number in range(90):
        machine = 1.05 ** ((number >= 40) + (number >= 65))
        kernel = (1.08 if number >= 20 else 1.0) * (1.02 if number >= 65 else 1.0)
        history.commit(number, dict.fromkeys(history.levels, machine) | {"warpwatch": machine * kernel})
    asv.load(store)
    before = _recorded(store)
    with store.write("demo") as connection:  # the same, had chance alone shown as much in one series of five
        connection.execute(update(schema.changepoint).values(p_adjusted=0.2))
        connection.execute(update(schema.machine).values(findings=schema.machine.c.findings + 1))
    classify_machines(store)
    return before + _recorded(store)


def _confirmed(store: Store, asv: AsvResults) -> list[Any]:
    """The findings for a young step that further runs of both commits confirm, and of one that they do not."""
    names = [str(n) for n in range(8)]
    asv.benchmark("suite.time_it", size=names)
    dice = random.Random(5)
    for turn, commit in enumerate([*range(21), 19, 20, 20, 19, 19, 20]):
        noise = [1 + dice.gauss(0, 0.002) for _ in names]
        moved = [1.1 if commit == 20 and (n == 0 or (n == 1 and turn == 20)) else 1.0 for n in range(8)]
        values = [float(f"{1e-3 * x * y:.9g}") for x, y in zip(noise, moved, strict=True)]
        asv.commit(commit, {"suite.time_it": asv.row(values, [names], started_at=1_000_000_000 + 60_000 * turn)})
        asv.load(store, project="confirmed")
    return [
        [series.title, change.kind.value, change.is_confirmed, *_rounded(change.magnitude, change.ci_low)]
        for series in sorted(queries.find_series(store, "confirmed").series, key=lambda one: one.key)
        if (its := stored_history(store, series.key)) is not None
        for change in its.changes
    ]


def _recorded(store: Store) -> list[Any]:
    found: list[Any] = []
    for series in sorted(queries.find_series(store, "demo").series, key=lambda one: one.key):
        its = stored_history(store, series.key)
        assert its is not None
        for change in (*its.changes, *its.episodes):
            share = _rounded(change.share.value, change.share.ci_low, change.share.ci_high) if change.share else []
            alone = _rounded(*astuple(change.without_machine)) if change.without_machine else []
            chance = None if change.q_value is None else round(math.log10(max(change.q_value, 1e-300)), 1)
            found.append([series.title, change.kind.value, change.index, *share, *alone, chance])
    return found


def test_the_answers_change_only_with_the_version(sqlite_store: Store, asv: AsvResults) -> None:
    detected, classified = [*_detected(), *_detected_on_several_gpus()], _classified(sqlite_store, asv)
    confirmed = _confirmed(sqlite_store, AsvResults(asv.folder.parent / "confirmed"))
    assert [each[:3] for each in confirmed] == [["suite.time_it(0)", "step", True]]
    assert len(detected) > 30
    assert {each[1] for each in classified} >= {"step", "machine state", "not significant"}
    digest = hashlib.sha256(json.dumps([detected, classified, confirmed, _slow_declines()]).encode()).hexdigest()[:16]
    assert max(ANSWERS) == ANALYSIS_VERSION
    assert digest == ANSWERS[ANALYSIS_VERSION], "other answers than this version's: raise ANALYSIS_VERSION"
    assert len(set(ANSWERS.values())) == len(ANSWERS)


def _steps(asv: AsvResults) -> None:
    asv.benchmark("suite.time_it", size=["1", "2"])
    for number in range(40):
        values = [1e-3 * n * (1.2 if number >= 20 else 1) * (1 + number * 7 % 5 / 1000) for n in (1, 2)]
        asv.commit(number, {"suite.time_it": asv.row(values, [["1", "2"]], started_at=number + 1)})


def _by_other_rules(store: Store, version: int) -> None:
    """As another version of this code left it: with a change that is none, and without those that are."""
    change = schema.changepoint
    with store.write("demo") as connection:
        connection.execute(update(schema.project).values(analysis_version=version))
        connection.execute(update(change).values(magnitude=9.0, after=9.0))


@pytest.mark.parametrize("version", [0, ANALYSIS_VERSION + 1])
def test_what_other_rules_found_is_found_anew(store: Store, asv: AsvResults, version: int) -> None:
    _steps(asv)
    asv.load(store)
    expected = state_of(store)
    _by_other_rules(store, version)
    (project,) = queries.projects(store)
    assert project.unanalysed == project.series == 2
    assert analyse(store, only="another") == 0
    assert analyse(store) == 2
    assert state_of(store) == expected
    (project,) = queries.projects(store)
    assert (project.unanalysed, project.unjudged) == (0, 0)
    assert analyse(store) == 0


def test_a_kill_while_series_are_made_stale_leaves_that_to_the_next(store: Store, asv: AsvResults) -> None:
    _steps(asv)
    asv.load(store)
    _by_other_rules(store, 0)

    def fail(_c: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("UPDATE series SET stale"):
            raise KeyboardInterrupt

    event.listen(store.engine, "before_cursor_execute", fail)
    with pytest.raises(KeyboardInterrupt):
        analyse(store)
    event.remove(store.engine, "before_cursor_execute", fail)
    with store.read() as connection:
        assert connection.execute(select(schema.project.c.analysis_version)).scalars().all() == [0]
    assert analyse(store) == 2


class _UpgradedMeanwhile(Executor):
    """Does each task at once, and before it hands the findings out another version takes the project over."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def submit(self, work: Any, /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*args, **more))
        with self._store.write("demo") as connection:
            connection.execute(update(schema.project).values(analysis_version=ANALYSIS_VERSION + 1))
        return done


def test_findings_by_the_old_rules_come_too_late_once_others_have_taken_over(store: Store, asv: AsvResults) -> None:
    _steps(asv)
    asv.load(store)
    _by_other_rules(store, 0)
    before = state_of(store)["changes"]
    assert analyse(store, workers=(_UpgradedMeanwhile(store), 1)) == 0
    assert state_of(store)["changes"] == before
    (project,) = queries.projects(store)
    assert project.unanalysed == 2
