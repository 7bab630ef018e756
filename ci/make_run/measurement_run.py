"""Measures this machine's newest commits by the Makefile's own steps, and states how far it is."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from warpwatch.dashboard.cli.import_ import SET_ASIDE
from warpwatch.dashboard.web.measurement import Count, Current, Measurement

from .build_progress import AsvOutput, logged_count, printed_count
from .command_session import CommandSession

# The terminal of `make run`: lines that stay, and below them one that is overwritten.


class Terminal:
    """Where stdout is no terminal, the overwritten line appears once for each `topic`."""

    def __init__(self) -> None:
        self._shown = ""
        self._topic = ""

    def say(self, line: str) -> None:
        """Print a line that stays."""
        print(("\r\033[K" if self._shown and sys.stdout.isatty() else "") + line, flush=True)
        self._shown = ""

    def show(self, line: str, topic: str) -> None:
        """Put a line in the place of the last one shown."""
        if not sys.stdout.isatty():
            if topic != self._topic:
                print(line, flush=True)
        elif line != self._shown:
            width = shutil.get_terminal_size().columns
            print("\r\033[K" + line[: width - 1], end="", flush=True)
            self._shown = line
        self._topic = topic


# How long a measurement still takes, from how long its steps took so far.

Step = Literal["compiling", "measuring"]
_LEAST_SHARE = 0.05  # of a compilation; what a smaller one took says little of the rest


class TimeLeft:
    """Times the two steps of each commit. Times are in seconds, of any clock that only moves forward."""

    def __init__(self) -> None:
        self._took: dict[Step, float] = {}  # by the newest commit that has done it
        self._step: tuple[Step, int] | None = None
        self._began_s = 0.0
        self._reached: list[float] = []  # seconds after which that many benchmarks were measured
        self._reached_before: list[float] = []  # by the commit before

    def enter(self, step: Step, commit: int, now_s: float) -> str | None:
        """Say which step is under way. Returns a line on the step before, where this is another."""
        if self._step == (step, commit):
            return None
        line = self.end(now_s)
        self._step, self._began_s = (step, commit), now_s
        return line

    def end(self, now_s: float) -> str | None:
        """Say that the step under way is done. Returns a line on it, None if there was none."""
        if self._step is None:
            return None
        (step, commit), took_s = self._step, now_s - self._began_s
        self._took[step] = took_s
        self._step = None
        if step == "measuring":
            self._reached_before, self._reached = [*self._reached, took_s], []
        return f"{step} commit {commit}: {took_s:.0f} s"

    def estimate(
        self, count: Count | None, commits_after: int, now_s: float
    ) -> tuple[float, Literal["all commits", "this step"]] | None:
        """Seconds that all commits, or at least this step, still take; None without a basis.

        One source compiles about as long as another, but half of the time of measuring may lie in a few of hundreds of
        benchmarks: its basis is the commit before.
        """
        if self._step is None or count is None:
            return None
        step, elapsed_s = self._step[0], now_s - self._began_s
        rest_s = self._of_compiling(count, elapsed_s) if step == "compiling" else self._of_measuring(count, elapsed_s)
        if rest_s is None:
            return None
        took: dict[Step, float] = {**self._took, step: elapsed_s + rest_s}
        if "compiling" not in took or "measuring" not in took:
            return rest_s, "this step"
        same_commit_s = took["measuring"] if step == "compiling" else 0.0
        return rest_s + same_commit_s + commits_after * (took["compiling"] + took["measuring"]), "all commits"

    def _of_compiling(self, count: Count, elapsed_s: float) -> float | None:
        if count.done < _LEAST_SHARE * count.total:
            return None
        return elapsed_s * (count.total - count.done) / count.done

    def _of_measuring(self, count: Count, elapsed_s: float) -> float | None:
        self._reached += [elapsed_s] * (count.done + 1 - len(self._reached))
        before = self._reached_before
        if count.done >= len(before) - 1:
            return None
        return before[-1] - min(max(elapsed_s, before[count.done]), before[count.done + 1])


LOG = Path(".warpwatch", "measure.log")
_ENVIRONMENTS = Path(".asv", "env")
_IMPORT = (sys.executable, "-m", "warpwatch.ci.cli", "import", ".", "--project")
_LOOK_EVERY_S = 1.0


class _FailedError(Exception):
    """A step failed; its words are for the reader."""


class Measuring:
    """One measurement: set-up, asv, its results into the history after each commit, and the checkout's own kernels."""

    def __init__(self, make: Sequence[str], commits: int, current: Current, terminal: Terminal) -> None:
        self._make = make  # the command that takes a target of the Makefile
        self._current = current
        self._terminal = terminal
        self._times = TimeLeft()
        self._output = AsvOutput(commits=commits)
        self._imports = 0
        self._lock = threading.Lock()
        self._sessions: list[CommandSession] = []
        self.is_stopped = False  # by `stop`

    def run(self) -> None:
        """All of it, or as much as there is before `stop`."""
        LOG.parent.mkdir(exist_ok=True)
        LOG.write_text("")
        try:
            self._make_target("setup", "installing PyTorch and asv")
            self._measure()
            self._make_target("build", "compiling this checkout")
            if self._output.not_built:
                raise _FailedError(f"{', '.join(self._output.not_built)} did not compile")
        except _FailedError as failure:
            if not self.is_stopped:
                self._state(state="failed", problem=f"{failure}; see {LOG}")
                self._terminal.say(f"Failed: {failure}; see {LOG}. The dashboard still serves.")
        else:
            self._state(state="finished")
            self._terminal.say("Measured. The dashboard serves until Ctrl+C.")

    def stop(self) -> None:
        """End whatever runs, with all that it started."""
        with self._lock:
            self.is_stopped = True
        for session in list(self._sessions):
            session.stop()

    @property
    def exit_status(self) -> int:
        """Of `make run`: 1 after a failure, 130 if it was interrupted before the end."""
        return {"failed": 1, "running": 130}.get(self._current.now.state, 0)

    def _make_target(self, target: str, task: str) -> None:
        began_s = time.monotonic()
        self._state(task=task)

        def follow(line: str | None) -> None:
            if line is not None and (count := printed_count(line)):
                self._state(task="this checkout", compiled=count)

        self._run([*self._make, target], task, follow)
        self._terminal.say(f"{task}: {time.monotonic() - began_s:.0f} s")

    def _measure(self) -> None:
        """Runs asv, and imports when it goes on to the next commit: by then it has saved the one before."""
        output, imported = self._output, 1
        began_s = time.time()
        self._state(task="finding benchmarks")

        def follow(line: str | None) -> None:
            nonlocal imported, began_s
            before = output.commit
            if line is not None:
                output.read(line)
            if output.commit is None:
                return
            if output.commit != before:
                began_s = time.time() - _LOOK_EVERY_S
            self._show_commit(began_s)
            if output.commit > imported:
                imported = output.commit
                self._import()

        self._run([*self._make, "measure"], "measuring", follow)
        self._say(self._times.end(time.monotonic()))
        self._import()

    def _show_commit(self, began_s: float) -> None:
        output, now_s, left = self._output, time.monotonic(), None
        assert output.commit is not None
        commits = output.commits or output.commit
        compiled = logged_count(_ENVIRONMENTS, began_s)
        measured = None if output.is_building else output.measured
        if output.is_building or measured:
            self._say(self._times.enter("compiling" if output.is_building else "measuring", output.commit, now_s))
            count = compiled if output.is_building else measured
            left = self._times.estimate(count, commits - output.commit, now_s)
        self._state(
            task="building" if output.is_building and not compiled else "",
            commit=output.commit,
            commits=commits,
            compiled=compiled,
            measured=measured,
            left_s=left[0] if left else None,
            left_of=left[1] if left else "all commits",
        )

    def _import(self) -> None:
        self._state(task="importing the results", commit=self._output.commit, commits=self._output.commits)
        self._run([*_IMPORT, self._current.project], "importing the results", lambda line: None, (0, SET_ASIDE))
        self._imports += 1
        self._current.now = self._current.now.model_copy(update={"imports": self._imports})

    def _run(
        self, command: Sequence[str], task: str, follow: Callable[[str | None], None], succeeds: Sequence[int] = (0,)
    ) -> None:
        """Runs a command, its lines into the log. Raises _FailedError if it fails or all was stopped."""
        with self._lock:
            if self.is_stopped:
                raise _FailedError("interrupted")
            try:
                session = CommandSession(command)
            except OSError as error:
                raise _FailedError(f"{task}: {command[0]}: {error.strerror}") from error
            self._sessions.append(session)
        try:
            with LOG.open("a") as log:
                for line in session.lines(_LOOK_EVERY_S):
                    if line is not None:
                        print(line, file=log, flush=True)
                    follow(line)
            status = session.status()
        except _FailedError:  # of an import between two commits: asv would measure on, read by nobody
            session.stop()
            raise
        finally:
            self._sessions.remove(session)
        if status not in succeeds:
            raise _FailedError(f"{task} ended with status {status}")

    def _state(self, **fields: object) -> None:
        fields = {"state": "running", "imports": self._imports, **fields}
        now = self._current.now = Measurement.model_validate(fields)
        if now.state == "running":
            self._terminal.show(now.text, topic=f"{now.task} {now.commit} {now.measured is None}")

    def _say(self, line: str | None) -> None:
        if line is not None:
            self._terminal.say(line)
