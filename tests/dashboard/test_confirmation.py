"""A step at the newest commit is accepted at once if further runs of both commits, in turns, confirm it."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.asv_results import HOUR_MS, START_MS, AsvResults, hash_of
from tests.stored import new_regressions
from warpwatch.ci.runner.confirmation import is_suspicious
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.confirmation import compare_further_runs
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.changepoint import SeriesChange
from warpwatch.dashboard.model.comparison import Estimate
from warpwatch.dashboard.model.verdict import ChangeKind, NoiseSource, Verdict
from warpwatch.dashboard.statistics.changepoint import Changepoint, Detection
from warpwatch.dashboard.statistics.detection import ConfirmedStep, holm_p_values, with_confirmed
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"
RUN_MS = 60_000


@dataclass
class Machine:
    """Measures series with a noise of their own; the clock goes on by a minute a run."""

    store: Store
    asv: AsvResults
    noise: list[float]
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    now_ms: int = START_MS

    def run(self, number: int, factors: list[float]) -> None:
        """One run of the number-th commit, imported, as a runner does."""
        names = [str(n) for n in range(len(self.noise))]
        self.asv.benchmark(BENCH, size=names)
        self.now_ms += RUN_MS
        values = [1e-4 * f * (1 + self.dice.gauss(0, s)) for f, s in zip(factors, self.noise, strict=True)]
        self.asv.commit(number, {BENCH: self.asv.row(values, [names], started_at=self.now_ms, spread=0.0005)})
        import_results(self.store, open_folder(self.asv.folder, project="demo"), workers=1)

    def confirm(self, number: int, before: list[float], after: list[float], *, runs: int = 3) -> None:
        """Further runs of a commit and of the one before, in turns."""
        for turn in range(runs):
            for is_head in ((False, True), (True, False))[turn % 2]:
                self.run(number - 1 + is_head, after if is_head else before)

    def next_day(self) -> None:
        self.now_ms += 24 * HOUR_MS

    def steps(self) -> list[SeriesChange]:
        """Every step of the analysed store."""
        analyse(self.store)
        return [one.change for one in queries.changes(self.store, "demo") if one.change.kind is ChangeKind.STEP]


@pytest.fixture
def any_machine(store: Store, asv: AsvResults) -> Machine:
    """One whose store is on either kind of database."""
    return Machine(store=store, asv=asv, noise=[0.003] * 12)


@pytest.fixture
def machine(sqlite_store: Store, asv: AsvResults) -> Machine:
    """One whose store is on SQLite, for what does not depend on the database."""
    return Machine(store=sqlite_store, asv=asv, noise=[0.003] * 12)


def _long_history(machine: Machine, commits: int = 20) -> list[float]:
    """Commits of several days, each measured once, at the same level."""
    level = [1.0] * len(machine.noise)
    for number in range(commits):
        machine.next_day()
        machine.run(number, level)
    return level


def test_a_confirmed_step_at_the_newest_commit_is_a_regression_at_once(any_machine: Machine) -> None:
    machine = any_machine
    before = _long_history(machine)
    after = [1.1, *before[1:]]
    machine.next_day()
    machine.run(20, after)
    assert machine.steps() == []  # one value is no level
    machine.confirm(20, before, after, runs=2)
    assert machine.steps() == []
    machine.confirm(20, before, after, runs=1)
    (step,) = machine.steps()
    assert step.is_confirmed
    assert (step.previous_commit.hash, step.commit.hash) == (hash_of(19), hash_of(20))
    assert step.range_start == step.previous_commit
    assert step.ci_low < 0.1 < step.ci_high
    assert step.magnitude == pytest.approx(0.1, abs=0.01)
    (group,) = new_regressions(machine.store, "demo")
    assert [dict(one.series.parameters) for one in group.regressions] == [{"size": "0"}]

    for number in range(21, 36):  # the detector finds it too; it stays one change
        machine.next_day()
        machine.run(number, after)
        assert [each.commit.hash for each in machine.steps()] == [hash_of(20)]


def test_a_confirmed_step_holds_when_the_level_returns_and_its_end_is_confirmed_too(machine: Machine) -> None:
    before = _long_history(machine)
    after = [1.1, *before[1:]]
    for number, (old, new) in ((20, (before, after)), (21, (after, before))):
        machine.next_day()
        machine.run(number, new)
        machine.confirm(number, old, new)
    assert [(each.commit.hash, each.is_worse) for each in machine.steps()] == [
        (hash_of(20), True),
        (hash_of(21), False),
    ]


def test_fifty_commits_of_equal_code_raise_nothing_though_all_are_measured_again(machine: Machine) -> None:
    level = [1.0] * len(machine.noise)
    machine.run(0, level)
    for number in range(1, 51):
        machine.next_day()
        machine.run(number, level)
        machine.confirm(number, level, level)
        if number % 10 == 0:  # the dashboard tests the newest 30 pairs each time
            assert machine.steps() == []


def test_three_percent_are_suspicious_and_confirmed(sqlite_store: Store, asv: AsvResults) -> None:
    count = 200
    noise = [float(each) for each in np.linspace(0.001, 0.004, count)]  # of one run, as on an H200
    machine = Machine(store=sqlite_store, asv=asv, noise=noise)
    before, after = [1.0] * count, [1.03] * count
    machine.run(0, before)
    machine.run(1, after)
    base, head = (queries.find_commit(sqlite_store, "demo", hash_of(number)) for number in (0, 1))
    assert base is not None
    assert head is not None
    first = check(sqlite_store, "demo", base, head, threshold=0.02)
    suspicious = {row.series.key for row in first.rows if is_suspicious(row)}
    machine.confirm(1, before, after)
    further = compare_further_runs(sqlite_store, "demo", base, head, machine="box", threshold=0.02)
    confirmed = {row.series.key for row in further.rows if row.verdict is Verdict.REGRESSED}
    assert {(row.estimate.base_runs, row.estimate.head_runs) for row in further.rows if row.estimate} == {(3, 3)}
    assert len(suspicious & confirmed) >= 0.95 * count


def _changepoint(index: int, first: int, last: int, magnitude: float) -> Changepoint:
    ends = {"magnitude": magnitude, "ci_low": magnitude - 0.01, "ci_high": magnitude + 0.01}
    posterior = tuple((place, 1 / (last - first + 1)) for place in range(first, last + 1))
    return Changepoint(
        index=index,
        before=1.0,
        after=1 + magnitude,
        p_value=1e-4,
        p_adjusted=1e-3,
        posterior=posterior,
        **ends,
    )


def test_a_confirmed_step_replaces_the_changepoint_whose_range_contains_it() -> None:
    estimate = Estimate(
        change=0.05,
        ci_low=0.04,
        ci_high=0.06,
        p_value=1e-6,
        noise=0.003,
        noise_source=NoiseSource.RERUNS,
        degrees_of_freedom=8,
        base_runs=3,
        head_runs=3,
        runs_needed=0,
        equivalence_bound=0.06,
    )
    step = ConfirmedStep(base=102, head=105, before=1.0, after=1.05, estimate=estimate, p_adjusted=1e-5)
    commits = np.arange(100, 120)
    same, opposite, elsewhere = _changepoint(4, 3, 7, 0.06), _changepoint(8, 4, 9, -0.06), _changepoint(15, 15, 15, 0.1)
    found = with_confirmed(Detection(changes=(same, opposite, elsewhere)), [step], commits)
    assert [(each.index, each.first, each.is_confirmed) for each in found.changes] == [
        (5, 3, True),
        (8, 4, False),
        (15, 15, False),
    ]
    assert sum(chance for _, chance in found.changes[0].posterior) == pytest.approx(1)
    gone = ConfirmedStep(base=1, head=105, before=1.0, after=1.05, estimate=estimate, p_adjusted=1e-5)
    assert with_confirmed(found, [gone], commits) is found
    assert with_confirmed(found, [step], commits[::-1]) is found


def test_holms_p_values_are_those_of_the_procedure() -> None:
    assert holm_p_values([0.01, 0.04, 0.001]) == pytest.approx((0.02, 0.04, 0.003))
    assert holm_p_values([0.6, 0.5]) == pytest.approx((1.0, 1.0))
    assert holm_p_values([]) == ()
