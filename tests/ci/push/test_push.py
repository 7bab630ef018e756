"""`warpwatch push` against the server that `warpwatch serve` runs."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests

from tests.asv_results import hash_of
from tests.ci.push.conftest import BENCH, Runner
from tools.push_faults import trial
from warpwatch.ci.push.batch import RunArchiveError, archive_run, archived_runs
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import stated_limits
from warpwatch.dashboard.store.tokens import Scope, create_token


def test_new_and_changed_results_are_sent_once(any_runner: Runner) -> None:
    for number in range(3):
        any_runner.measure(number, float(number))
    done = any_runner.push()
    assert done.exit_code == 0, done.output
    assert "accepted 3 files, 0 of them unchanged, with 3 new points; 0 set aside" in done.output
    assert "accepted 0 files" in any_runner.push().output
    any_runner.measure(1, 1.5, run=2)  # asv's run of a commit that it measured before
    any_runner.measure(3, 3.0)
    assert "accepted 2 files, 0 of them unchanged, with 2 new points" in any_runner.push().output
    assert any_runner.arrived() == [0.0, 1.0, 1.5, 2.0, 3.0]
    done = any_runner.push("--again")
    assert done.exit_code == 0, done.output
    assert "accepted 4 files, 4 of them unchanged, with 0 new points; 0 set aside" in done.stdout
    assert any_runner.kept("waiting") == []
    assert any_runner.arrived() == [0.0, 1.0, 1.5, 2.0, 3.0]


def test_while_the_server_is_away_every_version_of_a_file_waits_on_disk(runner: Runner) -> None:
    nowhere = "http://127.0.0.1:9"
    path = runner.measure(0, 0.0)
    done = runner.push(to=nowhere)
    assert done.exit_code == 1
    assert f"{nowhere} does not answer" in done.output
    assert "1 batch not sent; queued in" in done.output
    runner.measure(0, 0.5, run=2)
    assert "2 batches not sent" in runner.push(to=nowhere).output
    path.unlink()  # a checkout that is thrown away
    runner.measure(1, 1.0)
    assert "3 batches not sent" in runner.push(to=nowhere).output
    (queue,) = runner.spool.iterdir()
    waited = [json.loads(each.read_text()) for each in queue.glob("destination.json")]
    assert waited == [{"server": nowhere, "project": "demo"}]
    # The same server at its true address: its queue is another, so the batches are put there.
    runner.push()
    for batch in sorted((queue / "waiting").iterdir()):
        (there,) = (each for each in runner.spool.iterdir() if each != queue)
        batch.rename(there / "waiting" / batch.name)
    assert "accepted 3 files, 1 of them unchanged, with 2 new points" in runner.push().output
    assert runner.arrived() == [0.0, 0.5, 1.0]


def test_runs_that_later_ones_overwrote_are_sent_first(any_runner: Runner) -> None:
    first, other, second = 1.5e-3, 1.1e-3, 1.7e-3
    for number, value, run in ((1, first, 1), (2, other, 2), (1, second, 3)):
        path = any_runner.measure(number, value, run=run)
        archive_run(any_runner.asv.folder, hash_of(number))
        archive_run(any_runner.asv.folder, hash_of(number))  # the same again is no other run
    assert len([*archived_runs(any_runner.asv.folder)]) == 3
    assert path.is_file()
    assert "5 files" in any_runner.push().output
    assert any_runner.arrived() == [first, second, other]
    assert "0 files" in any_runner.push().output  # each is sent once
    assert any_runner.push("--again").exit_code == 0
    assert any_runner.arrived() == [first, second, other]


def test_archives_of_runs_are_kept_for_a_month(runner: Runner) -> None:
    runner.measure(1, 1.5e-3)
    archive_run(runner.asv.folder, hash_of(1))
    (old,) = archived_runs(runner.asv.folder)
    os.utime(old.path, (time.time() - 31 * 24 * 3600,) * 2)
    runner.measure(1, 1.6e-3, run=2)
    archive_run(runner.asv.folder, hash_of(1))
    (new,) = archived_runs(runner.asv.folder)
    assert (old.path.name[:10], new.path.name[:10]) == ("0000000001", "0000000002")
    assert new.path.stat().st_mode & 0o777 == 0o644  # the user that pushes is another one
    archive_run(runner.asv.folder, "f" * 40)  # nothing was measured
    archive_run(runner.asv.folder / "none", "f" * 40)
    assert [*archived_runs(runner.asv.folder)] == [new]
    runner.measure(2, 1.6e-3)
    (runner.asv.folder / ".runs").rename(runner.asv.folder.parent / "archives")
    (runner.asv.folder / ".runs").touch()
    with pytest.raises(
        RunArchiveError, match=f"the results of {hash_of(2)[:8]} before a run overwrites them: .*File exists"
    ):
        archive_run(runner.asv.folder, hash_of(2))


def test_an_invalid_token_is_reported_and_nothing_lost(runner: Runner) -> None:
    runner.measure(0, 0.0)
    reading = create_token(runner.store, "demo", name="reader", scope=Scope.READ, now_ms=1)
    for token, message in (
        ("wrong", "the token is not valid (401)"),
        (reading, "the token has no permission (403)"),
        ("", "WARPWATCH_TOKEN is empty"),
        ("two words", "has no token"),
    ):
        done = runner.push(token=token)
        assert done.exit_code == 1
        assert message in done.output
    assert len(runner.kept("waiting")) == 1
    assert runner.push().exit_code == 0
    assert runner.arrived() == [0.0]


def test_a_token_may_stand_in_a_file(runner: Runner, tmp_path: Path) -> None:
    runner.measure(0, 0.0)
    (tmp_path / "token").write_text(f"{runner.token}\n")
    assert runner.push("--token-file", str(tmp_path / "token"), token="wrong").exit_code == 0
    done = runner.push("--token-file", str(tmp_path / "none"))
    assert done.exit_code == 1
    assert "cannot read the token" in done.output


def test_rejected_files_are_reported_and_not_sent_again(runner: Runner) -> None:
    runner.measure(0, 0.0)
    broken = runner.asv.folder / "box" / "broken.json"
    broken.write_text('{"commit_hash": 7}')
    done = runner.push()
    assert done.exit_code == 3
    assert "set aside: upload: box/broken.json:" in done.output
    assert runner.arrived() == [0.0]
    (kept,) = runner.kept("refused")
    assert "box/broken.json" in kept.with_name(f"{kept.name}.txt").read_text()
    assert "accepted 0 files" in runner.push().output
    assert runner.push("--again").exit_code == 3
    broken.unlink()
    again = runner.push("--again")  # what was kept is sent too, and the same content is kept once
    assert again.exit_code == 3
    assert len(runner.kept("refused")) == 1


def test_a_file_that_asv_is_writing_waits_until_complete(runner: Runner) -> None:
    path = runner.measure(0, 0.0)
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert "accepted 0 files" in runner.push().output
    path.write_text(whole)
    assert "accepted 1 files" in runner.push().output
    old = time.time() - 3600
    path.write_text(whole[:-20])
    os.utime(path, (old, old))
    assert runner.push().exit_code == 3  # its writer is gone: the server reports the fault


def test_a_batch_that_is_too_large_is_split(runner: Runner) -> None:
    """The server takes a mebibyte: of eight files of noise six at most at once, and nothing of one larger file."""
    rng = np.random.default_rng(1)
    sizes = [str(number) for number in range(100)]
    runner.asv.benchmark(BENCH, size=sizes)

    def measure(number: int, samples: int) -> None:
        noise = rng.random((100, samples)).tolist()
        row = runner.asv.row([each[0] for each in noise], [sizes], samples=noise, started_at=number + 1)
        runner.asv.commit(number, {BENCH: row})

    for number in range(8):
        measure(number, 200)
    done = runner.push()
    assert done.exit_code == 0, done.output
    assert "in two halves" in done.output
    assert "accepted 8 files, 0 of them unchanged, with 800 new points" in done.output
    measure(8, 2000)
    measure(9, 2)
    done = runner.push()
    assert done.exit_code == 3
    assert "too large for the server: The body is larger than 1 MiB" in done.output
    assert "accepted 1 files" in done.output


def test_pushers_of_one_queue_take_turns_and_of_two_do_no_harm(any_runner: Runner) -> None:
    for number in range(6):
        any_runner.measure(number, float(number))
    with ThreadPoolExecutor(4) as pool:
        spools = [any_runner.spool, any_runner.spool, any_runner.spool.with_name("other"), any_runner.spool]
        done = list(pool.map(lambda spool: any_runner.push("--patience", "60", spool=spool), spools))
    assert [each.exit_code for each in done] == [0] * 4, [each.output for each in done]
    assert any_runner.arrived() == [float(number) for number in range(6)]


def test_a_body_that_changed_in_transit_is_refused(runner: Runner) -> None:
    url = f"{runner.url}/api/projects/demo/results"
    headers = {"Authorization": f"Bearer {runner.token}", "Content-Digest": f"sha-256=:{'A' * 43}=:"}
    answer = requests.post(url, data=b"{}", headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["status"]) == (400, 400)
    assert "was changed on the way" in answer.json()["detail"]
    headers["Content-Digest"] = "md5=:AAAA:"  # RFC 9530: what is not known is passed over
    assert requests.post(url, data=b"{}", headers=headers, timeout=60).status_code == 422


def test_watch_sends_new_results_also_if_the_server_starts_later(runner: Runner) -> None:
    environment = {**os.environ, "WARPWATCH_TOKEN": runner.token, "WARPWATCH_SPOOL": str(runner.spool)}
    words = [str(runner.asv.folder), "--to", runner.url, "--project", "demo", "--watch", "--every", "0.1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "warpwatch.ci.cli", "push", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        for number in range(3):
            runner.measure(number, float(number))
            assert "accepted 1 files, 0 of them unchanged, with 1 new points" in process.stdout.readline()
        assert runner.arrived() == [0.0, 1.0, 2.0]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_folder_or_an_address_that_cannot_be_meant_is_named(runner: Runner) -> None:
    done = runner.push()
    assert done.exit_code == 1
    assert "does not exist: has asv run yet?" in done.output
    runner.measure(0, 0.0)
    for address, message in (
        ("perf.example.org", "expected such as https://"),
        ("http://a:b@host", "more than host and path"),
    ):
        done = runner.push(to=address)
        assert done.exit_code == 1
        assert message in done.output


def test_kills_of_pushers_and_servers_lose_nothing_and_repeat_nothing(database: str, tmp_path: Path) -> None:
    counts = trial(tmp_path, database, rounds=3, seed=3)
    assert counts.differs == ()
    assert counts.pushers_killed + counts.servers_killed > 0
    store = Store(database)
    assert len(queries.commits(store, "trial")) == 12
    store.close()


@pytest.fixture(autouse=True)
def _no_settings_of_the_developers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARPWATCH_URL", "WARPWATCH_TOKEN", "WARPWATCH_SPOOL"):
        monkeypatch.delenv(name, raising=False)


def test_the_limits_of_the_file_above_the_results_go_with_them(any_runner: Runner) -> None:
    any_runner.measure(0, 0.0)
    path = any_runner.asv.folder.parent / "warpwatch.toml"
    path.write_text('[gate]\nthreshold = 0.07\n[[rule]]\nmetric = "registers"\nblocks = false\n')
    done = any_runner.push()
    assert (done.exit_code, done.stderr.count("warning: the thresholds")) == (0, 0), done.output
    held = stated_limits(any_runner.store, "demo")
    assert held is not None
    assert (held.threshold, held.rules[0].metric, held.source) == (0.07, ("registers",), "warpwatch.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gate]\nthreshhold = 1", "did you mean threshold?"),
        ('[[rule]]\nmetric = "a\\u0000"\nblocks = false', "metric = 'a\\x00': expected"),
        ('[[rule]]\nblocks = false\nmetric = "' + "a" * 70_000 + '"', "larger than 64 KiB"),
    ],
)
def test_refused_thresholds_are_a_warning_and_results_are_sent(runner: Runner, text: str, message: str) -> None:
    runner.measure(0, 0.0)
    (runner.asv.folder.parent / "warpwatch.toml").write_text(text)
    done = runner.push()
    assert done.exit_code == 0
    assert "warning: the thresholds of the policy file were not sent: " in done.stderr
    assert message in done.stderr
    assert runner.arrived() == [0.0]
    assert stated_limits(runner.store, "demo") is None


@pytest.mark.parametrize("host", ["no.such.host.invalid", "127.0.0.1:9"])
def test_an_unreachable_server_is_named(runner: Runner, host: str) -> None:
    runner.measure(0, 1.0)
    done = runner.push("--patience", "1", to=f"http://{host}")
    assert done.exit_code == 1
    assert "took" not in done.output
    assert "again in 0 s" not in done.output
    (reason,) = {line.partition(";")[0] for line in done.output.splitlines() if "does not answer: " in line}
    assert reason.count("(") == reason.count(")")
