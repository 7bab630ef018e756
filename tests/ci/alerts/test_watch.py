"""`warpwatch alert`, watching as a process and once as a command, by a policy file."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.asv_results import AsvResults
from tests.ci.alerts.conftest import Scene
from tests.ci.alerts.test_lifecycle import OTHER, SLOW, STEADY
from tests.commands import run_command
from tests.http_inbox import Inbox
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import undelivered

POLICY = """
[alerts]
to = ["hook"]
digest = "weekly"

[[alerts.destination]]
name = "hook"
url_env = "KERNELS_HOOK"
"""
_STUCK_S = 120


@pytest.fixture
def scene(sqlite_store: Store, asv: AsvResults, inbox: Inbox) -> Scene:
    """What the commands do with a database, the other tests ask of both kinds."""
    return Scene(store=sqlite_store, asv=asv, to=(inbox.url,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands are called."""
    found = tmp_path / "checkout"
    found.mkdir()
    (found / "warpwatch.toml").write_text(POLICY)
    return found


def run(scene: Scene, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, "--database", address(scene), folder=folder, environment=environment)


def address(scene: Scene) -> str:
    return scene.store.url.render_as_string(hide_password=False)


def test_it_analyses_new_results_sends_alerts_and_ends_on_a_signal(scene: Scene, folder: Path, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW], load=False)
    import_results(scene.store, open_folder(scene.asv.folder, project="demo"))  # as an upload: nothing is analysed yet
    with (folder / "log").open("w") as log:
        watch = subprocess.Popen(
            [sys.executable, "-m", "warpwatch.ci.cli", "alert", "--watch", "1", "--database", address(scene)],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=os.environ | {"KERNELS_HOOK": inbox.url},
        )
        deadline = time.monotonic() + _STUCK_S
        while len(inbox.received) < 2 and watch.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        watch.send_signal(signal.SIGTERM)
        watch.wait()
    said = (folder / "log").read_text()
    assert watch.returncode == 0, said
    assert sorted(message["event"] for message in inbox.received) == ["digest", "regression"], said
    assert "1 new, 2 sent" in said


def test_a_policy_file_s_destination_requires_its_secret(scene: Scene, folder: Path, inbox: Inbox) -> None:
    scene.measure([*STEADY, *SLOW])
    without = run(scene, folder, "alert")
    assert without.returncode == 2
    assert "destination 'hook': the environment has no KERNELS_HOOK" in without.stderr
    away = run(scene, folder, "alert", KERNELS_HOOK="http://127.0.0.1:9/s3cr3t")
    assert (away.returncode, away.stdout) == (1, "1 new, 0 sent, 1 not delivered\n")
    listed = run(scene, folder, "alert", "--outbox")
    assert "hook: demo: +30.0 % on box" in listed.stdout
    assert "1 attempts: http://127.0.0.1:9: ConnectionError" in listed.stdout
    assert "s3cr3t" not in away.stderr + listed.stdout
    assert run(scene, folder, "alert", KERNELS_HOOK=inbox.url).stdout == "0 new, 1 sent, 0 not delivered\n"
    sent = run(scene, folder, "alert", "--digest", "daily", KERNELS_HOOK=inbox.url)
    assert (sent.returncode, sent.stdout) == (0, "1 sent, 0 not delivered\n")
    printed = run(scene, folder, "alert", "--digest", "--dry-run")
    assert "weekly: 1 new" in printed.stdout


def test_an_alert_that_no_route_takes_is_reported(scene: Scene, folder: Path, inbox: Inbox) -> None:
    policy = POLICY.replace('to = ["hook"]', "") + '\n[[alerts.route]]\nkernel = "other"\nto = ["hook"]\n'
    (folder / "warpwatch.toml").write_text(policy)
    scene.measure([*STEADY, *SLOW])
    done = run(scene, folder, "alert", KERNELS_HOOK=inbox.url)
    assert done.returncode == 1
    assert '"demo: +30.0 %' in done.stderr
    assert "has no destination: no route matches" in done.stderr
    assert inbox.received == []


@pytest.mark.parametrize(("asked", "hours"), [("3600", 1), ("315360000", 24)])
def test_a_destinations_retry_after_is_respected(scene: Scene, inbox: Inbox, asked: str, hours: int) -> None:
    scene.measure([*STEADY, *SLOW])
    scene.measure([*STEADY, *SLOW], name=OTHER, machine="another")
    inbox.answer, inbox.retry_after = 429, asked
    before = datetime.now(UTC)
    scene.look()
    assert len(inbox.received) == 1  # its other messages wait too
    (waits, *_) = sorted(undelivered(scene.store, "demo"), key=lambda each: -each.attempts)
    assert waits.attempts == 1
    assert waits.next_attempt is not None
    pause = timedelta(hours=hours)
    assert before + pause - timedelta(seconds=1) <= waits.next_attempt <= datetime.now(UTC) + pause
