"""`warpwatch runner measure --confirm` as a process: commits built and measured by asv, pushed to a dashboard.

One commit does 10 % more work. The alert goes out after that one commit, with at most three further runs of it and of
the one before; tests/dashboard/test_confirmation.py has fifty commits of equal code.
"""

import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.asv_environment import put_asv_environment
from tests.dashboard.pages.browsing import serving
from tests.http_inbox import listening
from tests.stored import stored_history
from tools.planted_repository import PlantedRepository, planted_repository
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.tokens import create_token

GOOD, ALSO_GOOD, BAD = range(3)
# Other work on this machine changes CPU times by more than 10 %, and of two programs that alternate equally.
_BENCHMARK = """\
import ctypes
import statistics
import sys
import time
from pathlib import Path


def _function(path):
    function = ctypes.CDLL(path).work
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    return function


def _seconds(function):
    began = time.process_time()
    function(1.5)
    return time.process_time() - began


class Library:
    unit, version = "seconds", "1"

    def track_work(self):
        \"\"\"CPU time of the commit's library, in units of the first commit's, which takes about 1.6 ms.\"\"\"
        work, first = _function(Path(sys.prefix) / "libwork.so"), _function(Path(__file__).parents[1] / "first.so")
        return 1.6e-3 * statistics.median(_seconds(work) / _seconds(first) for _ in range(101))
"""

pytestmark = [pytest.mark.timing, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> PlantedRepository:
    """Three commits, of which the last does 10 % more work; nothing is measured."""
    made = planted_repository(tmp_path_factory.mktemp("confirm") / "project", commits=2, culprit=BAD, change=0.1)
    made.environment["WARPWATCH_LOCK_FOLDER"] = str(made.folder.parent)
    put_asv_environment(tmp_path_factory, made.folder)
    # asv takes benchmarks from the working tree.
    (made.folder / "benchmarks" / "library.py").write_text(_BENCHMARK)
    first = subprocess.run(
        ["git", "show", f"{made.commits[GOOD]}:work.c"], cwd=made.folder, check=True, capture_output=True
    )
    command = ["cc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", str(made.folder / "first.so")]
    subprocess.run(command, input=first.stdout, check=True)
    return made


def _measure(runner: PlantedRepository, commit: int) -> str:
    """What the runner says of the newest commit, when this one is the newest."""
    subprocess.run(["git", "checkout", "--quiet", "--detach", runner.commits[commit]], cwd=runner.folder, check=True)
    done = runner.warpwatch("runner", "measure", "--no-fetch", "--commits", "1", "--confirm")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def _regressions(runner: PlantedRepository, dashboard: str, database: str, token: str) -> list[dict[str, Any]]:
    """The alerts of a scan after a push."""
    runner.environment["WARPWATCH_TOKEN"] = token
    pushed = runner.warpwatch("push", "--to", dashboard, "--project", "planted")
    assert pushed.returncode == 0, pushed.stderr
    with listening() as inbox:
        sent = runner.warpwatch("alert", "--to", inbox.url, "--database", database)
        assert sent.returncode == 0, sent.stdout + sent.stderr
        # Of a shared machine there may also be an alert that it cannot be trusted.
        return [message for message in inbox.received if message["event"] == "regression"]


def test_a_commit_with_ten_percent_more_work_raises_its_alert_at_once(runner: PlantedRepository) -> None:
    database = f"sqlite:///{runner.folder.parent / 'dashboard.db'}"
    store = Store(database)
    token = create_token(store, "planted", name="runner", now_ms=1)
    with serving(Settings(database=database)) as dashboard:
        for commit in (GOOD, ALSO_GOOD):
            said = _measure(runner, commit)
            assert _regressions(runner, dashboard, database, token) == [], said
        said = _measure(runner, BAD)
        (alert,) = _regressions(runner, dashboard, database, token)
    assert "1 of 1 confirmed" in said
    assert alert["first_bad_commit"]["hash"] == runner.commits[BAD]
    (regression,) = alert["regressions"]
    assert regression["is_confirmed"]
    assert regression["benchmark"] == "library.Library.track_work"
    assert 0.08 < regression["relative_change"] < 0.12

    (series,) = queries.find_series(store, "planted").series  # every run has arrived
    history = stored_history(store, series.key)
    assert history is not None
    runs = Counter(point.commit.hash for point in history.points)
    assert runs[runner.commits[BAD]] == 4
    assert runs[runner.commits[ALSO_GOOD]] in (4, 7)  # noise may have raised a suspicion of it before
    store.close()
