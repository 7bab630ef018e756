"""Measures this machine's newest commits with targets of the Makefile, and reports the progress."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from warpwatch.dashboard.cli.import_ import SET_ASIDE
from warpwatch.dashboard.web.measurement import Count, Current, Measurement

from .build_progress import AsvOutput, CommandSession, logged_count, printed_count, triton_count

# The terminal of `make run`: permanent lines, and a status line below them.


class Terminal:
    """Prints lines and a status line. If stdout is not a terminal, the status line is printed once for each `topic`."""

    def __init__(self) -> None:
        self._shown = ""
        self._topic = ""

    def say(self, line: str) -> None:
        """Print a permanent line."""
        print(("\r\033[K" if self._shown and sys.stdout.isatty() else "") + line, flush=True)
        self._shown = ""

    def show(self, line: str, topic: str) -> None:
        """Replace the status line."""
        if not sys.stdout.isatty():
            if topic != self._topic:
                print(line, flush=True)
        elif line != self._shown:
            width = shutil.get_terminal_size().columns
            print("\r\033[K" + line[: width - 1], end="", flush=True)
            self._shown = line
        self._topic = topic


# The remaining time of a measurement, estimated from its steps so far.

Step = Literal["compiling", "measuring"]
_LEAST_SHARE = 0.05  # of a compilation; a smaller share predicts little


class TimeLeft:
    """Times the two steps of each commit. Times are in seconds, of any clock that only moves forward."""

    def __init__(self) -> None:
        self._took: dict[Step, float] = {}  # of the newest commit that completed the step
        self._step: tuple[Step, int] | None = None
        self._started_s = 0.0
        self._reached: list[float] = []  # seconds until each number of benchmarks was measured
        self._reached_before: list[float] = []  # the same of the previous commit

    def enter(self, step: Step, commit: int, now_s: float) -> str | None:
        """Enter a step. Returns a line on the previous step if it was another one."""
        if self._step == (step, commit):
            return None
        line = self.end(now_s)
        self._step, self._started_s = (step, commit), now_s
        return line

    def end(self, now_s: float) -> str | None:
        """End the current step. Returns a line on it, None if there was none."""
        if self._step is None:
            return None
        (step, commit), took_s = self._step, now_s - self._started_s
        self._took[step] = took_s
        self._step = None
        if step == "measuring":
            self._reached_before, self._reached = [*self._reached, took_s], []
        return f"{step} commit {commit}: {took_s:.0f} s"

    def estimate(
        self, count: Count | None, commits_after: int, now_s: float
    ) -> tuple[float, Literal["all commits", "this step"]] | None:
        """Remaining seconds of all commits, or only of this step; None if unknown.

        Compiling is estimated from the share of compiled sources. Measuring is estimated from the previous commit, as a
        few of hundreds of benchmarks may take half of the time.
        """
        if self._step is None or count is None:
            return None
        step, elapsed_s = self._step[0], now_s - self._started_s
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
_POLL_S = 1.0


class _FailedError(Exception):
    """A step failed; the message is for the user."""


class Measuring:
    """One measurement: set-up, asv with an import after each commit, and a build of the checkout."""

    def __init__(self, make: Sequence[str], commits: int, current: Current, terminal: Terminal) -> None:
        self._make = make  # the command that runs a target of the Makefile
        self._current = current
        self._terminal = terminal
        self._times = TimeLeft()
        self._output = AsvOutput(commits=commits)
        self._imports = 0
        self._lock = threading.Lock()
        self._sessions: list[CommandSession] = []
        self.is_stopped = False  # by `stop`

    def run(self) -> None:
        """Measure until the end or `stop`."""
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
        """End running commands and their processes."""
        with self._lock:
            self.is_stopped = True
        for session in list(self._sessions):
            session.stop()

    @property
    def exit_status(self) -> int:
        """Exit status of `make run`: 1 after a failure, 130 if interrupted."""
        return {"failed": 1, "running": 130}.get(self._current.now.state, 0)

    def _make_target(self, target: str, task: str) -> None:
        started_s = time.monotonic()
        self._state(task=task)

        def follow(line: str | None) -> None:
            if line is not None and (count := printed_count(line)):
                self._state(task="this checkout", compiled=count)

        self._run([*self._make, target], task, follow)
        self._terminal.say(f"{task}: {time.monotonic() - started_s:.0f} s")

    def _measure(self) -> None:
        """Runs asv, and imports results when asv starts the next commit, as it then has saved the previous one."""
        output, imported = self._output, 1
        started_s = time.time()
        self._state(task="finding benchmarks")

        def follow(line: str | None) -> None:
            nonlocal imported, started_s
            before = output.commit
            if line is not None:
                output.read(line)
            if output.commit is None:
                return
            if output.commit != before:
                started_s = time.time() - _POLL_S
            self._show_commit(started_s)
            if output.commit > imported:
                imported = output.commit
                self._import()

        self._run([*self._make, "measure"], "measuring", follow)
        self._say(self._times.end(time.monotonic()))
        self._import()

    def _show_commit(self, started_s: float) -> None:
        output, now_s, left = self._output, time.monotonic(), None
        assert output.commit is not None
        commits = output.commits or output.commit
        compiled = logged_count(_ENVIRONMENTS, started_s)
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
            triton=None if output.is_building else triton_count(_ENVIRONMENTS, started_s),
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
        """Runs a command and logs its lines. Raises _FailedError if it fails, or after `stop`."""
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
                for line in session.lines(_POLL_S):
                    if line is not None:
                        print(line, file=log, flush=True)
                    follow(line)
            status = session.status()
        except _FailedError:  # of an import between two commits: asv would continue without a reader
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
            self._terminal.show(now.text, topic=f"{now.task} {now.commit} {now.measured is None} {now.triton is None}")

    def _say(self, line: str | None) -> None:
        if line is not None:
            self._terminal.say(line)
