"""Real processes: all that a command starts ends with it, however it was started."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpwatch.ci.make_run.build_progress import CommandSession

pytestmark = pytest.mark.outside

# As asv starts a build: in a group of its own; as PyTorch starts compiler processes: in a session of its own; as a
# program that cleans up: deaf to SIGINT.
_PROGRAM = f"""
import os, signal, subprocess, sys
sleep = [{sys.executable!r}, "-c", "import time; time.sleep(600)"]
deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
started = [
    subprocess.Popen(sleep, preexec_fn=lambda: os.setpgid(0, 0)),
    subprocess.Popen(sleep, start_new_session=True),
    subprocess.Popen([{sys.executable!r}, "-c", deaf]),
]
print(*[process.pid for process in started], flush=True)
signal.pause()
"""


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def started() -> Iterator[tuple[CommandSession, list[int]]]:
    session = CommandSession([sys.executable, "-c", _PROGRAM])
    lines = session.lines(every_s=60)
    first = [line for _ in range(2) if (line := next(lines))]
    pids = [int(word) for line in first for word in line.split() if word.isdecimal()]
    assert "deaf" in " ".join(first)
    assert len(pids) == 3
    yield session, pids
    for pid in pids:
        if is_running(pid):
            os.kill(pid, 9)


def test_nothing_that_it_started_goes_on(started: tuple[CommandSession, list[int]]) -> None:
    session, pids = started
    assert all(map(is_running, pids))
    session.stop()
    assert not any(map(is_running, pids))
    assert session.status() != 0


def test_processes_of_others_go_on(started: tuple[CommandSession, list[int]]) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        started[0].stop()
        assert is_running(other.pid)
        other.kill()


def test_lines_come_as_they_are_written_and_a_pause_is_none() -> None:
    session = CommandSession(["sh", "-c", "echo one; echo two >&2; read line < /dev/stdin; sleep 0.3; printf three"])
    lines = list(session.lines(every_s=0.01))
    assert [line for line in lines if line is not None] == ["one", "two", "three"]
    assert None in lines
    assert session.status() == 0


def test_a_command_that_has_ended_can_be_stopped() -> None:
    session = CommandSession(["true"])
    assert list(session.lines(every_s=1)) == []
    while is_running(session._process.pid):
        time.sleep(0.01)
    session.stop()
    assert session.status() == 0
