"""Findings depend on the history alone, not on the imports that brought it."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tests.asv_results import AsvResults
from tests.dashboard.suite_results import Suite
from warpwatch.dashboard.store import Store, schema

LATENCY, COUNT, NEW = "suite.Bench.track_latency", "suite.Count.track_it", "suite.New.track_latency"
SIZES = [str(2**n) for n in range(6)]
COMMITS = 28
MACHINES = ("one", "two")
Part = tuple[str, int]  # machine and commit: a result file


def _rows(seed: int) -> dict[Part, dict[str, Any]]:
    """Histories with noise, steps, gaps and failures; one benchmark is new and has few commits."""
    rng, made = np.random.default_rng(seed), AsvResults(Path())
    rows = {}
    for machine in MACHINES:
        logs = rng.normal(0, 0.004, (COMMITS, 2 * len(SIZES)))
        for column in range(0, 2 * len(SIZES), 3):
            logs[rng.integers(3, COMMITS) :, column] += rng.choice([-0.1, 0.05, 0.2])
        levels = np.exp(logs).tolist()
        moved = int(rng.integers(1, COMMITS))
        for number in range(COMMITS):
            values = [None if rng.random() < 0.08 else value for value in levels[number]]
            row = {COUNT: made.row([48.0 + (number >= moved)], started_at=number + 1)}
            if rng.random() < 0.85:
                row[LATENCY] = made.row(values[: len(SIZES)], [SIZES], started_at=number + 1, spread=0.003)
            if number >= COMMITS - 10 and rng.random() < 0.6:
                row[NEW] = made.row(values[len(SIZES) :], [SIZES], started_at=number + 1, spread=0.003)
            rows[machine, number] = row
    return rows


def _findings(rows: dict[Part, dict[str, Any]], imports: list[list[Part]]) -> dict[str, list[Any]]:
    """What the store holds after these imports, without its own numbers."""
    with tempfile.TemporaryDirectory() as folder:
        asv, store = AsvResults(Path(folder, "results")), Store(str(Path(folder, "history.db")))
        asv.benchmark(LATENCY, size=SIZES)
        asv.benchmark(NEW, size=SIZES)
        asv.benchmark(COUNT, unit="registers")
        for parts in imports:
            for machine, number in parts:
                asv.commit(number, rows[machine, number], machine=machine)
            asv.load(store)
        found = _stored(store)
        store.close()
    return found


def _stored(store: Store) -> dict[str, list[Any]]:
    with store.read() as connection:
        commit, series = schema.commit, schema.series
        hashes = dict(connection.execute(select(commit.c.id, commit.c.hash)).all())
        keys = dict(connection.execute(select(series.c.id, series.c.key)).all())

        def resolved(name: str, value: Any) -> Any:
            if name == "posterior":
                return [(hashes[number], share) for number, share in value]
            if name.endswith("commit_id"):
                return hashes.get(value)
            # How the sums of a judgement are rounded depends on the order in which the values are stored.
            return round(value, 12) if isinstance(value, float) else value

        found: dict[str, list[Any]] = {}
        for table in (schema.changepoint, schema.episode, schema.summary):
            rows = connection.execute(select(table)).mappings().all()
            found[table.name] = sorted(
                (keys[row["series_id"]], *((name, resolved(name, row[name])) for name in row if not _is_number(name)))
                for row in rows
            )
        return found


def _is_number(name: str) -> bool:
    """Whether a column holds a number that the store itself gives."""
    return name in {"id", "series_id", "run_id"}


ALL_PARTS = [(machine, number) for number in range(COMMITS) for machine in MACHINES]


@functools.cache
def _findings_at_once(seed: int) -> dict[str, list[Any]]:
    return _findings(_rows(seed), [ALL_PARTS])


@st.composite
def _imports(draw: st.DrawFn) -> list[list[Part]]:
    """The files in any order, split into imports."""
    parts = draw(st.permutations(ALL_PARTS)) if draw(st.booleans()) else ALL_PARTS
    cuts = sorted(draw(st.sets(st.integers(1, len(parts) - 1), max_size=8)))
    return [parts[start:end] for start, end in zip([0, *cuts], [*cuts, len(parts)], strict=True)]


@pytest.mark.outside
@settings(max_examples=12)
@given(imports=_imports(), seed=st.integers(0, 3))
def test_any_split_of_a_history_into_imports_gives_the_same_findings(imports: list[list[Part]], seed: int) -> None:
    found, at_once = _findings(_rows(seed), imports), _findings_at_once(seed)
    assert at_once["changepoint"]
    for table, expected in at_once.items():
        assert found[table] == expected


@pytest.mark.outside
@settings(max_examples=5)
@given(order=st.permutations(range(9)), cuts=st.sets(st.integers(1, 8), max_size=3))
def test_the_order_of_imports_does_not_change_what_several_gpus_found(order: list[int], cuts: set[int]) -> None:
    """The effects of each pair of sessions come from all series, so all of them are analysed again."""
    imports = [order[start:end] for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 9], strict=True)]
    found, at_once = _fleet_findings(imports), _fleet_findings_at_once()
    assert {row["is_across_gpus"] for _, *columns in at_once["changepoint"] for row in [dict(columns)]} == {True}
    for table, expected in at_once.items():
        assert found[table] == expected


@functools.cache
def _fleet_findings_at_once() -> dict[str, list[Any]]:
    return _fleet_findings([list(range(9))])


def _fleet_findings(imports: list[list[int]]) -> dict[str, list[Any]]:
    """Of nine commits on three GPUs, with two steps of ours."""
    with tempfile.TemporaryDirectory() as folder:
        asv, store = AsvResults(Path(folder, "results")), Store(str(Path(folder, "history.db")))
        history = Suite(asv, workloads=tuple(f"w{number}" for number in range(20)))
        for parts in imports:
            for number in parts:
                moved = dict.fromkeys(history.levels, 1 + 0.02 * (number % 3))
                moved["warpwatch"] *= (0.7 if number >= 5 else 1.0) * (1.2 if number >= 3 else 1.0)
                history.commit(number, moved, card=f"GPU-{'abc'[number % 3] * 8}-1")
            asv.load(store)
        found = _stored(store)
        store.close()
    return found


@pytest.mark.outside
def test_a_file_at_a_time_gives_the_same_findings() -> None:
    assert _findings(_rows(7), [[part] for part in ALL_PARTS]) == _findings_at_once(7)
