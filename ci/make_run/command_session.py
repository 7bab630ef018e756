"""Runs a command in its own session, streams its lines, and ends all of its processes."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_PATIENCE_S = {signal.SIGINT: 5.0, signal.SIGTERM: 2.0, signal.SIGKILL: 2.0}
_POLL_S = 0.05


class CommandSession:
    """A running command and its descendants, in other groups and sessions too."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raises OSError if the command cannot be started."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )

    def lines(self, every_s: float) -> Iterator[str | None]:
        """Each line of stdout and stderr until the command closes them; None after each `every_s` without one."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        rest = b""
        while True:
            if not select.select([descriptor], [], [], every_s)[0]:
                yield None
                continue
            chunk = os.read(descriptor, 65536)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
        if rest:
            yield rest.decode(errors="replace")

    def status(self) -> int:
        """The command's exit status, once it has ended."""
        return self._process.wait()

    def stop(self) -> None:
        """End every process of the command by SIGINT, on which asv ends its children, then SIGTERM and SIGKILL."""
        sessions = {self._process.pid, *_sessions_below(self._process.pid)}
        for number, patience_s in _PATIENCE_S.items():
            for pid in _members(sessions):
                _send(pid, number)
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                self._process.poll()  # reaps the zombie
                if not _members(sessions):
                    return
                time.sleep(_POLL_S)


def _members(sessions: set[int]) -> list[int]:
    return [pid for pid, (_, session, state) in _processes().items() if session in sessions and state not in "ZX"]


def _sessions_below(root: int) -> set[int]:
    """Sessions of a process and its descendants."""
    processes = _processes()
    known = {root}
    while more := {pid for pid, (parent, _, _) in processes.items() if parent in known} - known:
        known |= more
    return {processes[pid][1] for pid in known if pid in processes}


def _processes() -> dict[int, tuple[int, int, str]]:
    """Parent, session and state of each process, from proc(5)."""
    processes = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        processes[int(folder.name)] = (int(fields[1]), int(fields[3]), fields[0])
    return processes


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
