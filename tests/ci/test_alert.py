"""`warpwatch alert` as its users run it: a process, a store, and a real HTTP server at the other end."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.commands import run_command
from tests.http_inbox import Inbox, listening
from warpwatch.dashboard.store import Store

GOOD = [1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.99, 1.0, 1.01, 1.0]
BAD = [2.0, 2.01, 1.99, 2.0, 2.01]


@pytest.fixture
def inbox():
    with listening() as server:
        yield server


class History:
    """One benchmark that doubles at its eleventh commit, in a store of its own."""

    def __init__(self, folder: Path, values: list[float]) -> None:
        self.database = str(folder / "history.db")
        self.results = AsvResults(folder / "results")
        self.add(values)

    def add(self, values: list[float], *, first: int = 0) -> None:
        name = "suite.Bench.track_latency"
        self.results.benchmark(name)
        for number, value in enumerate(values, start=first):
            self.results.commit(number, {name: self.results.row([value], started_at=number + 1, spread=0.002)})
        store = Store(self.database)
        self.results.load(store)
        store.close()

    def alert(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        folder = Path(self.database).parent
        return run_command("alert", "--database", self.database, *words, folder=folder, environment=environment)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path, GOOD + BAD)


def test_a_regression_is_reported_once_with_commit_size_and_command(history: History, inbox: Inbox) -> None:
    first = history.alert("--to", inbox.url, "--dashboard", "https://perf.example.org")
    assert (first.returncode, first.stdout) == (0, "1 new, 1 sent, 0 not delivered\n")
    (message,) = inbox.received
    assert message["first_bad_commit"]["hash"] == hash_of(10)
    assert message["last_good_commit"]["hash"] == hash_of(9)
    (row,) = message["regressions"]
    assert row["relative_change"] == pytest.approx(1.0, abs=0.02)
    assert row["interval_95"][0] < row["relative_change"] < row["interval_95"][1]
    *command, pattern = shlex.split(message["reproduce"])
    assert command == ["warpwatch", "gate", hash_of(9), hash_of(10), "--bench"]
    assert re.search(pattern, "suite.Bench.track_latency")
    assert message["url"] == f"https://perf.example.org/demo/commit/{hash_of(10)}"

    again = history.alert("--to", inbox.url)
    assert (again.returncode, again.stdout) == (0, "0 new, 0 sent, 0 not delivered\n")
    assert len(inbox.received) == 1


def test_what_was_not_taken_is_sent_at_the_next_call_under_the_same_key(history: History, inbox: Inbox) -> None:
    inbox.answer = 503
    refused = history.alert("--to", f"{inbox.url}/hook?secret=s3cr3t")
    assert refused.returncode == 1
    assert "answered 503" in refused.stderr
    assert "s3cr3t" not in refused.stdout + refused.stderr  # a webhook's address is its password

    inbox.answer = 200
    taken = history.alert("--to", f"{inbox.url}/hook?secret=s3cr3t")
    assert (taken.returncode, taken.stdout) == (0, "0 new, 1 sent, 0 not delivered\n")
    assert inbox.keys[0] is not None
    assert inbox.keys[0] == inbox.keys[1]


@pytest.mark.parametrize("status", [302, 307])
def test_a_webhook_that_sends_on_has_not_taken_the_message(history: History, inbox: Inbox, status: int) -> None:
    """To a login page, say, or to an address within: the page answers 200, and no recipient got the alert."""
    with listening() as other:
        inbox.answer, inbox.moved_to = status, f"{other.url}/login?next=s3cr3t"
        done = history.alert("--to", f"{inbox.url}/hook")
        assert (done.returncode, done.stdout) == (1, "1 new, 0 sent, 1 not delivered\n")
        assert f"sends on to {other.url}: give that address" in done.stderr
        assert "s3cr3t" not in done.stderr
        assert (other.received, other.asked) == ([], [])


def test_a_destination_that_is_down_does_not_keep_the_message_from_another(history: History, inbox: Inbox) -> None:
    done = history.alert("--to", "http://127.0.0.1:9/", "--to", inbox.url)
    assert (done.returncode, done.stdout) == (1, "1 new, 1 sent, 1 not delivered\n")
    assert len(inbox.received) == 1


def test_apprise_delivers_where_an_address_is_not_a_webhook(history: History, inbox: Inbox) -> None:
    done = history.alert("--to", inbox.url.replace("http://", "json://"))
    assert done.returncode == 0, done.stderr
    (message,) = inbox.received
    assert hash_of(10)[:8] in message["title"]
    assert "Reproduce: `warpwatch gate" in message["message"]


def test_an_unknown_address_is_refused_before_anything_is_recorded(history: History, inbox: Inbox) -> None:
    refused = history.alert("--to", "pigeon://loft")
    assert refused.returncode == 2
    assert "cannot send to 'pigeon'" in refused.stderr
    assert history.alert("--to", inbox.url).stdout == "1 new, 1 sent, 0 not delivered\n"


@pytest.mark.parametrize(
    "address",
    ["https:///s3cr3t", "https://[::1/s3cr3t", "https://w:s3/cr3t@example.org/", "https://hook:s3cr3t/", "s3cr3t"],
)
def test_an_address_without_a_host_is_refused_and_not_repeated(address: str, history: History) -> None:
    refused = history.alert("--to", address)
    assert refused.returncode == 2
    assert "names no host" in refused.stderr or "cannot send to" in refused.stderr
    for part in ("s3cr3t", "cr3t", "s3/"):
        assert part not in refused.stdout + refused.stderr


def test_a_retired_destination_does_not_fail_later_alerts(history: History, inbox: Inbox) -> None:
    assert history.alert("--to", "http://127.0.0.1:9/").returncode == 1
    retired = history.alert("--to", inbox.url)
    assert (retired.returncode, retired.stdout) == (0, "0 new, 0 sent, 0 not delivered\n")
    assert '1 messages wait for "http://127.0.0.1:9/", which neither --to nor warpwatch.toml names' in retired.stderr
    inbox_later = history.alert("--to", "http://127.0.0.1:9/")
    assert (inbox_later.returncode, inbox_later.stdout) == (1, "0 new, 0 sent, 1 not delivered\n")


def test_a_missing_destination_is_reported(history: History) -> None:
    done = history.alert(WARPWATCH_ALERT_TO="")
    assert done.returncode == 2
    assert "give --to URL" in done.stderr


def test_a_dry_run_prints_the_message_and_records_nothing(history: History, inbox: Inbox) -> None:
    dry = history.alert("--dry-run")
    assert dry.returncode == 0
    assert hash_of(10)[:8] in dry.stdout
    assert history.alert("--to", inbox.url).stdout == "1 new, 1 sent, 0 not delivered\n"


def test_a_change_below_the_threshold_is_not_reported(tmp_path: Path, inbox: Inbox) -> None:
    history = History(tmp_path, [*GOOD, *(1.3 * value for value in GOOD)])
    for threshold, found in (("0.5", "0 new, 0 sent"), ("0.2", "1 new, 1 sent")):
        (tmp_path / "warpwatch.toml").write_text(f"[alerts]\nthreshold = {threshold}\n")
        assert history.alert("--to", inbox.url).stdout.startswith(found)


def test_old_regressions_of_a_first_import_are_no_news(history: History, inbox: Inbox) -> None:
    history.add([2.0, 2.01, 1.99] * 16, first=15)  # an hour a commit: the step is now two days old
    policy = Path(history.database).parent / "warpwatch.toml"
    for days, found in (("1", "0 new, 0 sent"), ("3", "1 new, 1 sent")):
        policy.write_text(f"[alerts]\nrecent_days = {days}\n")
        assert history.alert("--to", inbox.url).stdout == f"{found}, 0 not delivered\n"
