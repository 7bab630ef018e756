"""How the command `warpwatch` ends when something outside a command fails: 1 is kept for "regressed"."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from tests.commands import run_command
from warpwatch.dashboard.cli.output import FAILED, INTERRUPTED, PIPE_CLOSED
from warpwatch.dashboard.store import Store

_BROKEN = """
from warpwatch.ci import cli as main
main._COMMANDS["check"] = main._COMMANDS["check"]._replace(source="ci.gate.check_command:no_such_name")
main.main()
"""
_WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
from warpwatch.ci.cli import main
main()
"""
QUIET = [1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.001]
READING = [
    ["check", "aaaaaaa", "bbbbbbb"],
    ["report"],
    ["export"],
    ["export", "--site", "site"],
    ["alert", "--dry-run"],
    ["alert", "--digest", "--dry-run"],
    ["token", "list"],
    ["policy", "retention", "--dry-run"],
    ["policy", "accept", "aaaaaaa", "bbbbbbb", "time_sort", "known"],
]


def _warpwatch(
    *arguments: str | Path, code: str = "from warpwatch.ci.cli import main; main()", cwd: Path, **more: Any
) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WARPWATCH_")}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        text=True,
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, **more},
    )


@pytest.fixture
def history(timed_history: Callable[..., Any], tmp_path: Path) -> Path:
    """A folder in which `warpwatch check 0000000b 0000000c` finds a regression."""
    results = timed_history([*QUIET, 1.15])
    done = run_command("import", results.folder, "--project", "demo", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_an_error_that_no_command_handles_is_no_regression(tmp_path: Path) -> None:
    done = _warpwatch("check", "a", "b", code=_BROKEN, cwd=tmp_path)
    assert done.returncode == FAILED
    assert "Traceback" in done.stderr
    assert "Error: warpwatch failed unexpectedly (AttributeError); please report the lines above" in done.stderr


def test_an_interrupted_command_ends_with_130(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "warpwatch.ci.cli",
            "runner",
            "with-gpu-lock",
            "--",
            "sh",
            "-c",
            "echo begun; exec sleep 600",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()  # the command is at work
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the command and to what it runs
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert said.strip() == "Interrupted."


def test_a_reader_that_has_seen_enough_is_no_regression(history: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = _warpwatch("check", "0000000b", "0000000c", cwd=history, stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (PIPE_CLOSED, "")


def test_a_full_disk_under_the_output_prints_the_verdict_and_is_no_regression(history: Path) -> None:
    done = _warpwatch("check", "0000000b", "0000000c", "--output", "/dev/full", cwd=history)
    assert done.returncode == FAILED
    assert "1 regressed" in done.stdout
    assert done.stderr == ("Error: cannot write /dev/full: No space left on device. The result was printed instead\n")


def test_a_full_disk_under_standard_output_is_no_regression(history: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = _warpwatch("check", "0000000b", "0000000c", cwd=history, stdout=full)
    assert done.returncode == FAILED
    assert done.stderr == "Error: cannot write or read a file: No space left on device\n"


@pytest.mark.parametrize("option", ["--output", "--artefact"])
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_measured(option: str, tmp_path: Path) -> None:
    done = run_command("gate", "HEAD~1", "HEAD", option, tmp_path / "absent" / "x.json", folder=tmp_path)
    assert done.returncode == 2
    assert f"the folder {tmp_path / 'absent'} does not exist" in done.stderr


def test_a_missing_database_driver_says_what_to_install(tmp_path: Path) -> None:
    done = _warpwatch(
        "check", "aaaaaaa", "bbbbbbb", "--database", "postgresql://h/db", code=_WITHOUT_PSYCOPG, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr == "Error: PostgreSQL needs psycopg: pip install 'warpwatch[postgresql]'\n"


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("database", [None, "hstory", "sqlite:///absent/folder/history.db"])
def test_a_mistyped_database_is_named_and_nothing_is_created(
    command: list[str], database: str | None, tmp_path: Path
) -> None:
    done = run_command(*command, *(["--database", database] if database else []), folder=tmp_path)
    assert done.returncode == 2
    assert "does not exist: name another database with --database or WARPWATCH_DATABASE" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path, database: str) -> None:
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE notes (words TEXT)"))
    done = run_command("report", "--database", database, folder=tmp_path)
    assert done.returncode == 2
    assert "has no warpwatch history" in done.stderr
    assert inspect(engine).get_table_names() == ["notes"]
    engine.dispose()


@pytest.mark.parametrize("content", [b"not a database, but long enough" * 50, b"SQLite format 3\0" * 64])
def test_a_file_that_is_no_database_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(content)
    done = run_command("report", "--database", "notes.txt", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: cannot open the database sqlite:///notes.txt: ")
    assert (tmp_path / "notes.txt").read_bytes() == content


def test_a_database_that_breaks_later_is_no_regression(history: Path) -> None:
    database = history / ".warpwatch" / "warpwatch.db"
    store = Store(str(database))
    with store.write("test") as connection:
        connection.exec_driver_sql("ALTER TABLE series RENAME TO gone")
    store.close()
    done = _warpwatch("check", "0000000b", "0000000c", cwd=history)
    assert done.returncode == FAILED
    assert done.stderr.startswith("Error: the database failed: no such table: series")
