"""Measures this machine's newest commits by the Makefile's own steps, and states how far it is."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from warpwatch.ci.make_run.asv_output import AsvOutput
from warpwatch.ci.make_run.command_session import CommandSession
from warpwatch.ci.make_run.ninja_progress import logged_count, printed_count
from warpwatch.ci.make_run.terminal import Terminal
from warpwatch.ci.make_run.time_left import TimeLeft
from warpwatch.dashboard.import_command import SET_ASIDE
from warpwatch.dashboard.measurement import Current, Measurement

LOG = Path(".warpwatch", "measure.log")
_ENVIRONMENTS = Path(".asv", "env")
_IMPORT = (sys.executable, "-m", "warpwatch.ci.main", "import", ".", "--project")
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
