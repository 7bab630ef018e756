"""`warpwatch serve` as a process: it prints its address, answers there, and reports a port that is taken."""

import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpwatch.dashboard.cli.serve import DEFAULT_PORT

COMMAND = [sys.executable, "-c", "from warpwatch.dashboard.cli.serve import serve; serve()"]


@contextmanager
def _serve(database: Path, *arguments: str) -> Iterator[str]:
    environment = {**os.environ, "WARPWATCH_DATABASE": f"sqlite:///{database}", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stdout.read()
        yield found[0]
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_it_prints_an_address_of_this_machine_alone_and_answers_there(tmp_path: Path) -> None:
    with _serve(tmp_path / "history.db", "--port", "0") as url:
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}healthz", timeout=60) as answer:
            assert answer.status == 200


def test_it_prints_who_may_read_and_write(tmp_path: Path) -> None:
    openid = {
        "WARPWATCH_LOGIN": "openid",
        "WARPWATCH_URL": "https://perf.example.org",
        "WARPWATCH_OPENID_ISSUER": "https://login.example.org",
        "WARPWATCH_OPENID_CLIENT_ID": "warpwatch",
    }
    for arguments, variables, said in (
        ((), {}, "Anonymous read access. To write, open http://127.0.0.1:"),
        (("--host", "0.0.0.0"), {}, "Writing needs an API token"),
        ((), openid, "Reading needs a login"),
        ((), openid | {"WARPWATCH_READING": "open"}, "Writing needs a login with a role"),
    ):
        environment = {**os.environ, **variables, "WARPWATCH_DATABASE": str(tmp_path / "x.db"), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments], stdout=subprocess.PIPE, text=True, env=environment
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert said in process.stdout.readline()
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_a_setting_that_is_missing_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--database", str(tmp_path / "x.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "WARPWATCH_LOGIN": "openid"},
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "WARPWATCH_OPENID_ISSUER" in done.stderr


def test_a_chosen_port_that_is_taken_is_an_error_that_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--port", str(port), "--database", str(tmp_path / "x.db")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr
    assert "--port" in done.stderr


def test_the_default_port_gives_way_to_the_next_free_one(tmp_path: Path) -> None:
    try:
        other = socket.create_server(("127.0.0.1", DEFAULT_PORT))
    except OSError:
        other = None  # somebody else has it, which serves as well
    try:
        with _serve(tmp_path / "history.db") as url:
            assert int(url.rstrip("/").rpartition(":")[2]) > DEFAULT_PORT
    finally:
        if other:
            other.close()


def test_a_database_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--database", "oracle://nowhere/x"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "oracle is not supported" in done.stderr
    assert "Traceback" not in done.stderr
