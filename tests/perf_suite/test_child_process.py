"""A process of the suite ends with the one that started it, and also if that has ended before."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpbench import child_process

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import os, pathlib, time
pathlib.Path(__file__).with_name("runs").write_text(str(os.getpid()))
time.sleep(600)
"""
# Starts the module through a shell that first waits for a word, prints the shell's process id, and ends or stays.
STARTER = """
import subprocess, sys, time
sys.path[:0] = {path!r}
from warpbench.child_process import python_running
command = python_running("sleeper", under_another_program={under_another_program})
shell = subprocess.Popen(["sh", "-c", "read word; exec \\"$@\\"", "sh", *command], stderr=open({errors!r}, "w"))
print(shell.pid, flush=True)
time.sleep({stays_s})
"""


@pytest.fixture
def start(tmp_path):
    """Start the module by a process that stays or has ended; its process id, once it was let go on."""
    (tmp_path / "sleeper.py").write_text(MODULE)
    ids = []

    def start(*, ended, under_another_program=False):
        reader, writer = os.pipe()
        code = STARTER.format(
            path=[str(tmp_path), str(ROOT)],
            errors=str(tmp_path / "errors"),
            under_another_program=under_another_program,
            stays_s=0 if ended else 600,
        )
        starter = subprocess.Popen([sys.executable, "-c", code], stdin=reader, stdout=subprocess.PIPE, text=True)
        os.close(reader)
        ids.append(pid := int(starter.stdout.readline()))
        if ended:
            starter.wait()
        else:
            ids.append(starter.pid)
        os.write(writer, b"on\n")
        os.close(writer)
        return pid, starter

    yield start
    for pid in ids:
        if is_running(pid):
            os.kill(pid, 9)


def is_running(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(holds, limit_s=120):
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_a_process_whose_starter_has_ended_before_it_began_does_not_run(start, tmp_path):
    pid, _ = start(ended=True)
    wait_until(lambda: not is_running(pid))
    assert not (tmp_path / "runs").exists()
    assert "the process that started this one has ended" in (tmp_path / "errors").read_text()


def test_a_process_runs_as_long_as_its_starter(start, tmp_path):
    pid, starter = start(ended=False)
    wait_until(lambda: (tmp_path / "runs").exists() and (tmp_path / "runs").read_text() == str(pid))
    starter.kill()
    starter.wait()
    wait_until(lambda: not is_running(pid))


def test_under_another_program_it_is_that_program_that_counts(start, tmp_path):
    """As under a profiler, whose process id is not known ahead."""
    pid, _ = start(ended=True, under_another_program=True)
    wait_until(lambda: (tmp_path / "runs").exists())
    assert is_running(pid)


def test_the_command_runs_what_this_process_finds():
    done = subprocess.run([*child_process.python_running("this")], capture_output=True, text=True, check=True)
    assert "Beautiful is better than ugly" in done.stdout
