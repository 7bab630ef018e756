"""Confirmation of suspicions: series that seem to have changed with a new commit are measured again, in turns.

A single run raises a suspicion, and only further runs test it: `dashboard/statistics/README.md` has the statistics,
and the dashboard repeats the test on the same runs. Each run is archived for `warpwatch push` before the next one
overwrites its file, so an interruption loses at most the current run.
"""

import json
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.confirmation import CONFIRMING_RUNS, compare_further_runs, has_confirming_runs
from warpwatch.dashboard.cli.store_access import read_settings
from warpwatch.dashboard.importers.git import GitError, git
from warpwatch.dashboard.model.comparison import Comparison, ComparisonRow
from warpwatch.dashboard.model.quantities import change as change_text
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.model.verdict import CHANGED, NoiseSource, Verdict
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.queries.comparison_pairs import Pair
from warpwatch.dashboard.text.labels import count

from ..asv_checkout import AsvRuns
from ..gate.gate_loop import analysis_schedule, run_gate
from ..host_lock import HostLockError, lock_folder, open_shared, visible_gpus
from ..policy.committed_policy import ComparisonPolicy, read_committed_policy, read_comparison_policy
from ..push.batch import archive_run

_DAY_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBudget:
    """The seconds spent today, in a file next to the GPU's lock: jobs that start with an empty home share it.

    The process that holds the lock writes it. A restart of the machine begins with the whole budget.
    """

    path: Path
    seconds: float  # of a day

    def remaining_s(self) -> float:
        """Seconds left today, negative if the last run took longer. Raises HostLockError."""
        return self.seconds - self._spent()

    def spend(self, seconds: float) -> None:
        """Records spent seconds. Raises HostLockError."""
        text = json.dumps({"day": _today(), "seconds": round(self._spent() + seconds, 1)}).encode()
        descriptor = self._open()
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)
        finally:
            os.close(descriptor)

    def _spent(self) -> float:
        """A file that another program damaged counts as a new day's."""
        descriptor = self._open()
        try:
            spent = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
            return float(spent["seconds"]) if spent["day"] == _today() else 0.0
        except (ValueError, TypeError, KeyError, RecursionError):
            return 0.0
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return open_shared(self.path)
        except OSError as error:
            raise HostLockError(f"cannot open {self.path}: {error.strerror}; see WARPWATCH_LOCK_FOLDER") from error


def day_budget(minutes: float) -> DayBudget:
    """The budget of the first visible GPU, or of a machine without one."""
    name = min(visible_gpus(), default="machine")
    return DayBudget(path=lock_folder() / f"warpwatch-{name}.confirmations", seconds=60 * minutes)


def _today() -> int:
    """Days since 1970."""
    return int(time.time() // _DAY_S)


_MOST_FAILED = 20  # earlier commits without a number, such as those that do not build


class _BudgetSpentError(Exception):
    """The next run would likely exceed the day's budget."""


@dataclass(slots=True, kw_only=True)
class Confirmation:
    """Confirms suspicions about commits of one project on this machine."""

    runs: AsvRuns
    repository: Path
    results: Path
    machine: str  # asv's name of it
    budget: DayBudget
    say: Callable[[str], None]
    _longest_s: float = field(default=0.0)  # of the runs of one confirmation

    def newest_run(self, commit: str) -> datetime | None:
        """The start of the newest run of a commit (full hash) on this machine."""
        found = queries.measured_on(self.runs.store, self.runs.project, commit)
        started = [runs.newest_run for runs in found if runs.machine == self.machine and runs.newest_run is not None]
        return max(started, default=None)

    def confirm(self, commit: str, measured_s: float) -> None:
        """Compares a measured commit (full hash) with the previous level, and measures suspicious series again.

        `measured_s`: seconds that its run took. Raises GateError and HostLockError.
        """
        if self.budget.seconds <= 0:
            return
        head = queries.find_commit(self.runs.store, self.runs.project, commit)
        if head is None:
            return  # nothing was measured; asv has printed why
        try:
            base = self._base(head, measured_s)
            if base is not None:
                self._confirm_against(base, head)
        except _BudgetSpentError:
            self.say(
                f"{commit[:8]}: no further runs, as {self.budget.seconds / 60:g} minutes of confirmations are spent"
                " today ([confirm] minutes_per_day in warpwatch.toml)"
            )

    def _base(self, head: Commit, measured_s: float) -> Commit | None:
        """The newest earlier commit with numbers here; measured first if this GPU has none of it, or of any.

        None without anything to compare: head has no number, or it is the first commit.
        """
        base, is_on_this_gpu = self._newest_before(head)
        if base is not None and is_on_this_gpu:
            return base
        if not any(pair.head.runs for pair in self._pairs(head, head)):
            return None
        if base is not None:
            name, why = base.hash, "was measured on another GPU"
        else:
            try:
                name = git(self.repository, "rev-parse", "--verify", "--quiet", f"{head.hash}^").strip()
            except GitError:
                return None
            why = "has no results here"
        self.say(f"{head.hash[:8]}: measuring {name[:8]} first, which {why}")
        self._longest_s = measured_s
        self._measure(name, None)
        return queries.find_commit(self.runs.store, self.runs.project, name)

    def _newest_before(self, head: Commit) -> tuple[Commit | None, bool]:
        """The newest earlier commit that has a number where head has one, and whether one GPU measured both."""
        base = self._before(head)
        for _ in range(_MOST_FAILED):
            if base is None:
                break
            compared = [pair for pair in self._pairs(base, head) if pair.base.runs and pair.head.runs]
            if compared:
                timed = [pair for pair in compared if not pair.series.metric.is_exact]
                return base, not timed or any(pair.other_gpus is None for pair in timed)
            base = self._before(base)
        return None, False

    def _before(self, commit: Commit) -> Commit | None:
        found = queries.measured_on(self.runs.store, self.runs.project, commit.hash)
        return next((runs.before for runs in found if runs.machine == self.machine), None)

    def _pairs(self, base: Commit, head: Commit) -> tuple[Pair, ...]:
        return queries.pairs(self.runs.store, self.runs.project, base.hash, head.hash, machine=self.machine)

    def _confirm_against(self, base: Commit, head: Commit) -> None:
        store, project = self.runs.store, self.runs.project
        committed = read_committed_policy(self.runs.folder, base.hash, head.hash, None)
        policy = read_comparison_policy(
            store,
            project,
            self.repository,
            base.hash,
            head.hash,
            committed=committed,
            threshold=None,
            default_threshold=read_settings().threshold,
        )
        suspicious = self._suspicious(base, head, policy)
        names = f"{head.hash[:8]} against {base.hash[:8]}"
        if not suspicious:
            self.say(f"{names}: no suspicion")
            return
        self.say(f"{names}: {count(len(suspicious), 'suspicious series', 'suspicious series')}, measured again:")
        for row in suspicious:
            self.say(f"  {_line(row)}")
        self._longest_s = 0.0

        def compare(family_error: float) -> Comparison:
            return self._compare_further(base, head, policy, family_error)

        done = run_gate(
            analysis_schedule(CONFIRMING_RUNS, committed.policy.gate.family_error),
            lambda is_head, series: self._measure((base, head)[is_head].hash, series),
            compare,
            budget_s=self.budget.remaining_s(),
            series=[row.series for row in suspicious],
            say=self.say,
        )
        keys = {row.series.key for row in suspicious}
        confirmed = [row for row in done.comparison.rows if row.verdict in CHANGED and row.series.key in keys]
        self.say(f"{names}: {len(confirmed)} of {len(suspicious)} confirmed in {done.seconds / 60:.1f} min")
        for row in confirmed:
            self.say(f"  {_line(row)}")

    def _suspicious(self, base: Commit, head: Commit, policy: ComparisonPolicy) -> list[ComparisonRow]:
        """Series that changed, or may have: inconclusive with an estimate beyond the threshold.

        Without series that further runs have already decided, and without exact quantities, which need no further run.
        """
        store, project = self.runs.store, self.runs.project
        found = check(
            store,
            project,
            base,
            head,
            threshold=policy.threshold,
            limits=policy.limits(store, project),
            machine=self.machine,
        )
        further = self._compare_further(base, head, policy, policy.committed.policy.gate.family_error)
        decided = {
            row.series.key
            for row in further.rows
            if row.verdict is not Verdict.INCONCLUSIVE and has_confirming_runs(row)
        }
        return [row for row in found.rows if row.series.key not in decided and is_suspicious(row)]

    def _compare_further(self, base: Commit, head: Commit, policy: ComparisonPolicy, family_error: float) -> Comparison:
        store, project = self.runs.store, self.runs.project
        return compare_further_runs(
            store,
            project,
            base,
            head,
            machine=self.machine,
            threshold=policy.threshold,
            limits=policy.limits(store, project),
            family_error=family_error,
        )

    def _measure(self, commit: str, series: Collection[SeriesSchema] | None) -> None:
        """One run, unless it would likely end after the day's budget. The first of a confirmation may."""
        if self.budget.remaining_s() <= self._longest_s:
            raise _BudgetSpentError
        archive_run(self.results, commit)
        started = time.monotonic()
        try:
            self.runs.run(commit, series)
        finally:
            seconds = time.monotonic() - started
            self.budget.spend(seconds)
            self._longest_s = max(self._longest_s, seconds)


def is_suspicious(row: ComparisonRow) -> bool:
    """Whether a measured series changed, or is inconclusive with an estimate beyond its threshold."""
    estimate, least = row.estimate, row.min_relative_change
    if estimate is None or least is None or estimate.noise_source is NoiseSource.NONE:
        return False
    return row.verdict in CHANGED or (row.verdict is Verdict.INCONCLUSIVE and abs(estimate.change) >= least)


def _line(row: ComparisonRow) -> str:
    change = change_text(row.estimate.change) if row.estimate is not None else ""
    return f"{row.series.title} {row.series.metric}: {change}, {row.verdict.value}"
