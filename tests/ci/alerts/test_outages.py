"""Senders, receivers and databases that are killed at any moment: no message is lost, none counts twice, and those of a
thread arrive in order."""

import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.asv_results import AsvResults
from tests.ci.alerts.sender import receive_http, receive_smtp, send
from tests.http_inbox import Inbox
from tests.postgresql import postgresql_program
from warpwatch.ci.alerts.alert_content import Message, key_of
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import queue_in_project, undelivered

THREADS, EACH = 12, 3
_STUCK_S = 120


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    """Starts processes that have everything loaded already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.ci.alerts.sender"])
    return context


@pytest.fixture
def filled(store: Store, asv: AsvResults) -> Store:
    """A store with a project."""
    asv.benchmark("suite.Bench.track_it")
    asv.commit(0, {"suite.Bench.track_it": asv.row([1.0])})
    asv.load(store)
    return store


def queue(store: Store, *destinations: str) -> set[str]:
    """Threads with several messages each; returns all keys."""
    keys = set()
    for thread, number in itertools.product(range(THREADS), range(1, EACH + 1)):
        name = f"{thread:032x}"
        key = key_of(name, number)
        message = Message(key=key, thread=name, title=key, text="text", payload={"key": key})
        queue_in_project(store, "demo", name, number, dict.fromkeys(destinations, message.as_json()), now_ms=1)
        keys.add(key)
    return keys


def first_arrivals(path: Path) -> list[str]:
    """What a receiver that drops repetitions has, in the order in which it came."""
    return list(dict.fromkeys(line.strip("<>").partition("@")[0] for line in path.read_text().split()))


def _count(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def assert_in_order(arrived: list[str]) -> None:
    """Each thread's messages by their numbers."""
    for thread in {key[:32] for key in arrived}:
        assert [key for key in arrived if key[:32] == thread] == [key_of(thread, n + 1) for n in range(EACH)]


@pytest.fixture(params=["http", "smtp"])
def receiver(
    request: pytest.FixtureRequest, processes: multiprocessing.context.ForkServerContext, free_port: int, tmp_path: Path
) -> Iterator[tuple[str, Path, Callable[[], None]]]:
    """Its address, the file that it writes to, and what strikes it dead and starts it again."""
    kept = tmp_path / "kept"
    kept.touch()
    running: list[BaseProcess] = []

    def again() -> None:
        for each in running:
            each.kill()
            each.join()
        target = receive_http if request.param == "http" else receive_smtp
        process = processes.Process(target=target, args=(free_port, str(kept)), daemon=True)
        process.start()
        running[:] = [process]

    again()
    address = {
        "http": f"http://127.0.0.1:{free_port}/",
        "smtp": f"mailto://127.0.0.1:{free_port}?from=a@w.org&to=b@w.org",
    }
    yield address[str(request.param)], kept, again
    running[0].kill()
    running[0].join()


def test_neither_the_senders_nor_the_receivers_death_loses_or_repeats_a_message(
    filled: Store,
    database: str,
    receiver: tuple[str, Path, Callable[[], None]],
    processes: multiprocessing.context.ForkServerContext,
) -> None:
    address, kept, again = receiver
    keys = queue(filled, address)
    rng = random.Random(7)
    kills = strikes = 0
    deadline = time.monotonic() + _STUCK_S
    while undelivered(filled, "demo"):
        assert time.monotonic() < deadline, "the messages do not get through"
        sender = processes.Process(target=send, args=(database, (address,)))
        sender.start()
        wanted = _count(kept) + rng.randint(0, 6)
        while sender.is_alive() and _count(kept) < wanted:
            time.sleep(0.001)
        sender.join(rng.uniform(0.0, 0.03))  # anywhere in what it does for a message
        kills += sender.is_alive()
        sender.kill()
        sender.join()
        if rng.random() < 0.2:
            again()
            strikes += 1
    arrived = first_arrivals(kept)
    assert set(arrived) == keys
    assert_in_order(arrived)
    assert _count(kept) - len(keys) <= kills + strikes  # a death repeats what was on its way, no more
    assert kills >= 3


def test_two_senders_at_once_repeat_nothing(
    filled: Store, database: str, inbox: Inbox, processes: multiprocessing.context.ForkServerContext
) -> None:
    keys = queue(filled, inbox.url)
    senders = [processes.Process(target=send, args=(database, (inbox.url,))) for _ in range(3)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sorted(map(str, inbox.keys)) == sorted(keys)
    assert_in_order(list(map(str, inbox.keys)))


def test_a_database_that_is_killed_under_the_watch_loses_nothing(
    postgresql_server: Path, tmp_path: Path, inbox: Inbox, asv: AsvResults
) -> None:
    name = f"watched_{os.getpid()}"
    psql = ["psql", "-h", str(postgresql_server), "-U", "warpwatch", "-d", "postgres", "-c"]
    subprocess.run([*psql, f"CREATE DATABASE {name}"], check=True, capture_output=True)
    database = f"postgresql://warpwatch@/{name}?host={postgresql_server}"
    store = Store(database)
    asv.benchmark("suite.Bench.track_it")
    asv.commit(0, {"suite.Bench.track_it": asv.row([1.0])})
    asv.load(store)
    keys = queue(store, inbox.url)
    store.close()
    words = ["alert", "--watch", "1", "--to", inbox.url, "--database", database]
    with (tmp_path / "log").open("w") as log:
        watch = subprocess.Popen(
            [sys.executable, "-m", "warpwatch.ci.cli", *words], stdout=log, stderr=log, cwd=tmp_path
        )
        try:
            for share in (0.1, 0.4, 0.7):
                _wait(lambda share=share: len(set(inbox.keys)) >= share * len(keys), watch)
                _restart(postgresql_server)
            _wait(lambda: set(inbox.keys) >= keys, watch)
        finally:
            watch.send_signal(signal.SIGTERM)
            watch.wait()
    said = (tmp_path / "log").read_text()
    assert watch.returncode == 0, said
    assert said.rstrip().endswith("ended")
    assert set(inbox.keys) == keys, said
    assert_in_order(list(dict.fromkeys(map(str, inbox.keys))))
    store = Store(database)
    assert undelivered(store, "demo") == ()
    store.close()


def _wait(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _STUCK_S
    while not is_so():
        assert process.poll() is None, "the watch ended by itself"
        assert time.monotonic() < deadline, "the messages do not get through"
        time.sleep(0.01)


def _restart(folder: Path) -> None:
    """As after a crash of the server."""
    pg_ctl = postgresql_program("pg_ctl")
    command = [str(pg_ctl), "-D", str(folder / "data"), "-l", str(folder / "log"), "-m", "immediate", "-w", "restart"]
    as_user = ["runuser", "-u", folder.owner(), "--"] if os.geteuid() == 0 else []
    subprocess.run([*as_user, *command], check=True, capture_output=True, cwd="/")


def test_a_message_of_an_earlier_version_is_read(filled: Store, inbox: Inbox) -> None:
    kept = json.dumps({"key": "k", "title": "t", "text": "x", "payload": {"key": "k"}})
    queue_in_project(filled, "demo", "alert-1", 1, {inbox.url: kept}, now_ms=1)
    send(filled.url.render_as_string(hide_password=False), (inbox.url,))
    assert inbox.received == [{"key": "k"}]
