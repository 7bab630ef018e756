"""An import of one commit more tells what an analysis of the whole history tells, mostly without it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, select

from tests.asv_results import AsvResults
from warpwatch.dashboard.analysis import analyse
from warpwatch.dashboard.statistics.continuation import LOOK_BACK, go_on
from warpwatch.dashboard.statistics.evidence import rank_deviation
from warpwatch.dashboard.store import Store, tables
from warpwatch.dashboard.store.point_buffer import mark_stale
from warpwatch.dashboard.store.tails import decode_tail

SERIES, COMMITS = 40, 64


def _levels(rng: np.random.Generator) -> list[list[float | None]]:
    """Histories by commit: noise of half a percent to two, a third of them with a step, some without a number."""
    logs = rng.normal(0, rng.uniform(0.005, 0.02, SERIES), (COMMITS, SERIES))
    for number in range(0, SERIES, 3):
        logs[rng.integers(10, COMMITS - 4) :, number] += 0.15
    values = 1e-3 * np.exp(logs)
    return [[None if rng.random() < 0.01 else float(value) for value in row] for row in values]


def _write(asv: AsvResults, number: int, values: list[float | None], *, count: int = 7) -> None:
    params = [[str(n) for n in range(SERIES)]]
    asv.commit(
        number,
        {
            "suite.Bench.track_latency": asv.row(values, params, started_at=number + 1, spread=0.004),
            "suite.Count.track_it": asv.row([count], started_at=number + 1),
        },
    )


@pytest.fixture
def histories(asv: AsvResults) -> list[list[float | None]]:
    asv.benchmark("suite.Bench.track_latency", n=[str(n) for n in range(SERIES)])
    asv.benchmark("suite.Count.track_it", unit="registers")
    return _levels(np.random.default_rng(7))


def _findings(store: Store) -> tuple[dict[int, list[Any]], dict[int, Any]]:
    with store.read() as connection:
        changes: dict[int, list[Any]] = {}
        for row in connection.execute(select(tables.changepoint).order_by(tables.changepoint.c.place)):
            changes.setdefault(row.series_id, []).append((row.place, row.is_worse))
        summary = tables.summary
        return changes, {row.series_id: row for row in connection.execute(select(summary))}


def _continued(store: Store) -> set[int]:
    """The series that the detector has not seen to their end."""
    with store.read() as connection:
        rows = connection.execute(select(tables.tail.c.series_id, tables.tail.c.data)).all()
    tails = {row.series_id: decode_tail(row.data) for row in rows}
    return {number for number, tail in tails.items() if tail.looked_at < tail.total}


def _anew(store: Store) -> None:
    """Everything analysed from nothing."""
    with store.write("demo") as connection:
        mark_stale(connection, connection.execute(select(tables.series.c.id)).scalars().all())
        assert not connection.execute(select(tables.tail.c.series_id)).all()
    analyse(store)


def test_one_commit_after_the_other_tells_what_all_of_them_tell(
    store: Store, asv: AsvResults, histories: list[list[float | None]]
) -> None:
    for number, values in enumerate(histories[: COMMITS - 10]):
        _write(asv, number, values)
    asv.load(store)
    most = 0
    for number, values in enumerate(histories[COMMITS - 10 :], start=COMMITS - 10):
        _write(asv, number, values)
        asv.load(store)
        most = max(most, len(_continued(store)))
    changes, summaries = _findings(store)
    assert most > SERIES / 2
    _anew(store)
    assert not _continued(store)
    full_changes, full = _findings(store)
    assert summaries.keys() == full.keys()
    for number, row in full.items():
        mine = summaries[number]._mapping
        for name in ("commit_id", "run_id", "status", "reason", "value", "q25", "sample_count", "runs", "sparkline",
                     "change_commit_id", "change_is_step", "verdict"):  # fmt: skip
            assert mine[name] == row._mapping[name], (number, name)
        if not row.change_is_step:
            assert mine["change"] == row.change
    assert changes == full_changes


def test_what_moves_is_left_to_the_detector(store: Store, asv: AsvResults, histories: list[list[float | None]]) -> None:
    for number, values in enumerate(histories[:50]):
        _write(asv, number, values)
    asv.load(store)
    base = np.nanmedian(np.array(histories[:50], dtype=float)[-5:], axis=0)
    for number in range(50, 58):
        noise = histories[number]
        _write(asv, number, [None if x is None else 1.3 * m * x / x for m, x in zip(base, noise, strict=True)], count=8)
        asv.load(store)
    changes, summaries = _findings(store)
    stepped = [number for number, each in changes.items() if each[-1] == (50, True) or abs(each[-1][0] - 50) <= 1]
    assert len(stepped) > 0.9 * SERIES
    counted = [number for number, row in summaries.items() if row.value == 8]
    assert [changes[number] for number in counted] == [[(50, True)]]
    _anew(store)
    assert _findings(store)[0] == changes


def test_more_of_a_run_that_was_seen_is_analysed_whole(store: Store, asv: AsvResults) -> None:
    asv.benchmark("suite.Bench.track_latency")
    rng = np.random.default_rng(3)
    for number, value in enumerate(np.exp(rng.normal(0, 0.01, 40)).tolist()):
        asv.commit(number, {"suite.Bench.track_latency": asv.row([value], started_at=number + 1)})
    asv.load(store)
    asv.commit(20, {"suite.Bench.track_latency": asv.row([1.5], started_at=99_999)})  # measured again
    asv.commit(40, {"suite.Bench.track_latency": asv.row([1.001], started_at=100_000)})
    asv.load(store)
    _, (summary, *_) = _findings(store)[0], [*_findings(store)[1].values()]
    assert not _continued(store)
    assert summary.value == 1.001


def test_a_store_without_tails_is_analysed_whole(store: Store, asv: AsvResults) -> None:
    asv.benchmark("suite.Bench.track_latency")
    for number in range(30):
        asv.commit(number, {"suite.Bench.track_latency": asv.row([1 + number % 3 / 100], started_at=number + 1)})
    asv.load(store)
    with store.write("demo") as connection:
        assert connection.execute(delete(tables.tail)).rowcount == 1
    asv.commit(30, {"suite.Bench.track_latency": asv.row([1.02], started_at=31)})
    asv.load(store)
    assert [row.value for row in _findings(store)[1].values()] == [1.02]
    assert not _continued(store)


@given(
    st.lists(
        st.lists(st.integers(1, 30).map(lambda n: 100.0 + n), min_size=1, max_size=LOOK_BACK), min_size=1, max_size=5
    )
)
def test_every_split_that_would_be_a_change_is_seen(levels: list[list[float]]) -> None:
    """The slow, obvious twin: all splits of every level, one by one."""
    goes = go_on([np.array(level) for level in levels], [200] * len(levels))
    for level, its in zip(levels, goes, strict=True):
        values = np.array(level)
        for new in range(6, len(values) - 7):
            left, right = values[:-new], values[-new:]
            most = (3 * len(left) * new / (len(values) + 1)) ** 0.5
            wanted = min(4.2 if new < 20 else 3.8, 0.95 * most)
            shift = abs(np.median(right) - np.median(left)) / np.median(values)
            if rank_deviation(left, right) >= wanted and shift >= 0.02:
                assert not its
    assert go_on([np.full(LOOK_BACK, 5.0)], [200]).all()


@pytest.mark.parametrize("noise", [0.0, 0.0005, 0.001, 0.002, 0.01])
@pytest.mark.parametrize("step", [1.03, 1.5, 0.6])
def test_a_step_in_a_quiet_series_is_left_to_the_detector_however_large(noise: float, step: float) -> None:
    """Its first values lie far beyond the quartiles, as outliers do."""
    rng = np.random.default_rng(5)
    levels = np.exp(rng.normal(0, noise, (50, 48)))
    assert go_on(list(levels), [200] * 50).sum() >= 45
    levels[:, -8:] *= step
    assert not go_on(list(levels), [200] * 50).any()
