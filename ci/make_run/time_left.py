"""How long a measurement still takes, from how long its steps took so far."""

from typing import Literal

from warpwatch.dashboard.measurement import Count

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
