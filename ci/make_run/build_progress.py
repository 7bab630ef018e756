"""Commands of a measurement in a session of their own, and their progress, from their output."""

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpwatch.dashboard.web.measurement import Count

# asv ends a line when it starts the next one, so a line is read when its work is done.

_TOTAL = re.compile(r"· Running (\d+) total benchmarks \((\d+) commits \*")
_SHARE = re.compile(r"^\[\s*(\d+\.\d+)%\] ·")
_COMMIT = re.compile(r"·+ For \S+ commit ([0-9a-f]+)")
_BUILDS = re.compile(r"·+ (Uninstalling from|Building) ")
_MEASURES = re.compile(r"·+ Benchmarking ")
_NOT_BUILT = re.compile(r"^\[\s*\d+\.\d+%\] ·+ Skipping ")


@dataclass(slots=True)
class AsvOutput:
    """The state after the lines read so far."""

    commits: int | None = None
    commit: int | None = None  # from 1, in asv's order
    is_building: bool = False
    measured: Count | None = None  # benchmarks of this commit
    not_built: list[str] = field(default_factory=list)  # hashes of commits that did not compile
    _benchmarks: int = 0
    _hash: str = ""

    def read(self, line: str) -> None:
        """Updates the state by one line; lines of other programs change nothing."""
        if _BUILDS.search(line):
            self.is_building = True
            self.commit = self.commit or 1  # asv builds the first commit to find the benchmarks
        elif total := _TOTAL.search(line):
            self.commits = int(total[2])
            self._benchmarks = int(total[1]) // self.commits
            self.is_building = False
        elif _MEASURES.search(line):
            self.is_building = False
        elif _NOT_BUILT.search(line):
            self.not_built.append(self._hash)
            self.is_building = False
        share = _SHARE.match(line)
        if share is None or not self.commits or not self._benchmarks:
            return
        done = round(float(share[1]) / 100 * self.commits * self._benchmarks)
        if commit := _COMMIT.search(line):  # asv prints no line for commits measured before
            self.commit = done // self._benchmarks + 1
            self._hash, self.is_building = commit[1], True
        if self.commit is not None:
            done_here = done - (self.commit - 1) * self._benchmarks
            self.measured = None if self.is_building else Count(done=done_here, total=self._benchmarks)


# Sources that ninja has compiled: from its output or, under asv, which captures the output, from its log.

_STATUS = re.compile(r"^\[(\d+)/(\d+)\] ")


def printed_count(line: str) -> Count | None:
    """The count of a line such as `[43/112] cuda kernels/csrc/rope/rope.cu`; None for other lines."""
    match = _STATUS.match(line)
    return Count(done=int(match[1]), total=int(match[2])) if match else None


def logged_count(environments: Path, since_s: float) -> Count | None:
    """The count of asv's current build in one of its environments, started after `since_s` (Unix time).

    asv empties a commit's checkout before it builds, so that the log holds this build alone. None before ninja has
    finished a first source.
    """
    logs = list(environments.glob("*/project/build/kernels/*/.ninja_log"))
    newest = max(logs, key=_modified_s, default=None)
    if newest is None or _modified_s(newest) < since_s:
        return None
    try:
        finished = {line.split("\t")[3] for line in newest.read_text().splitlines() if line.count("\t") == 4}
        total = sum(line.startswith("build ") for line in newest.with_name("build.ninja").read_text().splitlines())
    except OSError:  # asv is emptying the folder
        return None
    return Count(done=min(len(finished), total), total=total) if finished and total else None


def triton_count(environments: Path, since_s: float) -> Count | None:
    """Compilations of Triton kernels in one of asv's environments, started after `since_s` (Unix time).

    perf_suite.compiled.twins writes the file. None if nothing is compiled now.
    """
    newest = max(environments.glob("*/triton_progress.txt"), key=_modified_s, default=None)
    if newest is None or _modified_s(newest) < since_s:
        return None
    try:
        numbers = [int(word) for word in newest.read_text().split()]
    except OSError:  # asv is emptying the folder
        return None
    if len(numbers) != 2 or numbers[0] >= numbers[1]:  # while the file is written, it is empty
        return None
    return Count(done=numbers[0], total=numbers[1])


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
