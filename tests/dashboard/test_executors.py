"""Work done elsewhere gives what it gives here, in order; the analysis too, on processes and on a Dask cluster."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import pytest
from sqlalchemy import select, update

from warpwatch.dashboard.analysis import series_analysis
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.executors import InThread, NoClusterError, cluster, in_order, local_workers
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store, schema
from warpwatch.dashboard.store.point_buffer import mark_stale

pytestmark = pytest.mark.outside


def _square_and_place(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def _end(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def _fail(number: int) -> int:
    raise ValueError(f"no {number}")


@pytest.mark.parametrize("count", [1, 2])
def test_answers_come_in_the_order_of_the_questions(count: int) -> None:
    with local_workers(count) as workers:
        answers = list(in_order(workers, _square_and_place, range(50)))
    assert [square for square, _ in answers] == [n**2 for n in range(50)]
    assert (os.getpid() in {place for _, place in answers}) == (count == 1)


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_elsewhere_is_raised_here(count: int) -> None:
    with local_workers(count) as workers, pytest.raises(ValueError, match="no 0"):
        list(in_order(workers, _fail, range(50)))


_WORK = """
import os, time
from warpwatch.dashboard.executors import in_order, local_workers

def place(number):
    time.sleep(0.05)
    return os.getpid()

with local_workers(2) as workers:
    print(*set(in_order(workers, place, range(20))), flush=True)
    time.sleep(60)
"""


def test_workers_end_with_a_parent_that_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", _WORK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert workers
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 300
    while any(_is_alive(pid) for pid in workers):
        assert time.monotonic() < deadline, workers
        time.sleep(0.1)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # ended, and its parent has not read its status


def _findings(store: Store) -> list[Any]:
    with store.read() as connection:
        return [
            connection.execute(select(table).order_by(*table.primary_key)).all()
            for table in (schema.changepoint, schema.summary)
        ]


@pytest.fixture
def analysed(sqlite_store: Store, asv: Any) -> tuple[Store, list[Any]]:
    """Sixty series of twenty-four commits, half of which get slower, analysed here."""
    params = [[str(n) for n in range(60)]]
    for number in range(24):
        values = [(1.0 + n % 7 / 5) * (1.3 if number >= 12 and n % 2 else 1.0) + number % 3 / 1000 for n in range(60)]
        asv.commit(number, {"suite.Bench.track_latency": asv.row(values, params, started_at=number + 1, spread=0.01)})
    asv.load(sqlite_store)
    findings = _findings(sqlite_store)
    assert len(findings[0]) >= 30
    with sqlite_store.write("demo") as connection:
        for table in (schema.changepoint, schema.summary):
            connection.execute(table.delete())
        connection.execute(update(schema.series).values(stale=True))
    return sqlite_store, findings


def test_processes_find_what_is_found_here(analysed: tuple[Store, list[Any]]) -> None:
    store, findings = analysed
    with local_workers(2) as workers:
        assert analyse(store, workers=workers) == 60
    assert _findings(store) == findings


def test_a_dask_cluster_finds_what_is_found_here(analysed: tuple[Store, list[Any]]) -> None:
    store, findings = analysed
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as started,
        cluster(started.scheduler_address, timeout_s=120) as workers,
    ):
        assert analyse(store, workers=workers) == 60
    assert _findings(store) == findings


def test_a_cluster_that_does_not_answer_is_an_error_with_its_address() -> None:
    with pytest.raises(NoClusterError, match=r"127\.0\.0\.1:9"), cluster("tcp://127.0.0.1:9", timeout_s=1):
        pass


def test_what_an_import_adds_during_the_analysis_is_analysed_as_well(
    store: Store, timed_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings of older values are not taken for those of the newer."""
    results = timed_history([1.0] * 20)
    results.load(store)
    with store.write("demo") as connection:
        mark_stale(connection, [1])
    original, added = series_analysis._work, []

    def work_while_another_imports(task: Any) -> Any:
        found = original(task)
        if not added:
            added.append(timed_history([2.0] * 10, first=20))
            import_results(store, open_folder(results.folder, project="demo"))
        return found

    monkeypatch.setattr(series_analysis, "_work", work_while_another_imports)
    analyse(store, workers=(InThread(), 1))
    with store.read() as connection:
        assert connection.execute(select(schema.series.c.stale)).scalars().all() == [False]
        assert connection.execute(select(schema.summary.c.value)).scalars().all() == [2.0]
