"""Range, prior and series of a bisect, with real git histories and stores; and errors of its command."""

import math
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.commands import run_command
from tests.dashboard.suite_results import TRIAD, Suite
from tests.stored import new_regressions, regression_alerts
from warpwatch.ci.asv_checkout import AsvRuns
from warpwatch.ci.bisect.asv_target import AsvBench, NoSeriesError, SeriesError, controls_of, patterns, which_series
from warpwatch.ci.bisect.bisect_command import next_alert
from warpwatch.ci.bisect.commit_range import RangeCommit, RangeError, commit_range, prior_weights
from warpwatch.dashboard.model.alert import AlertState
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_regression_alert
from warpwatch.dashboard.store.alert_updates import RegressionUpdate, update_regression_alert

NAME = "suite.Bench.track_latency"


class Git:
    """A repository; commits are a minute apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        folder.mkdir()
        self("init", "--quiet", "--initial-branch", "main")

    def __call__(self, *words: str) -> str:
        at = f"{1_750_000_000 + 60 * self.made} +0000"
        names = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(
            ["git", "-c", "commit.gpgsign=false", *words],
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | names | {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at},
        ).stdout.strip()

    def commit(self, *paths: str) -> str:
        self.made += 1
        for path in paths:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(str(self.made))
        self("add", "--all")
        self("commit", "--quiet", "--message", f"change {self.made}")
        return self("rev-parse", "HEAD")


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git(tmp_path / "repository")


def test_a_range_follows_first_parents_and_a_merge_has_the_changes_of_its_branch(git: Git) -> None:
    good = git.commit("src/a.c")
    git("checkout", "--quiet", "-b", "side")
    side = [git.commit("src/b.c"), git.commit("src/ü.c")]
    git("checkout", "--quiet", "main")
    middle = git.commit("README.md")
    git.made += 1
    git("merge", "--quiet", "--no-ff", "--message", "Merge side", "side")
    merge = git("rev-parse", "HEAD")
    bad = git.commit("src/a.c")
    found = commit_range(git.folder, good, bad)
    assert [commit.hash for commit in found] == [good, middle, merge, bad]
    assert [commit.is_merge for commit in found] == [False, False, True, False]
    assert [set(commit.paths) for commit in found[1:]] == [{"README.md"}, {"src/b.c", "src/ü.c"}, {"src/a.c"}]
    assert found[1].subject == "change 4"

    with pytest.raises(RangeError, match=f"came with a merge. The line has {good[:12]} before it"):
        commit_range(git.folder, side[0], bad)
    with pytest.raises(RangeError, match=f"not an ancestor .* merge base is {good[:12]}"):
        commit_range(git.folder, middle, side[1])
    with pytest.raises(RangeError, match="same commit"):
        commit_range(git.folder, good, good)


def test_a_range_with_odd_characters_is_read(git: Git) -> None:
    good = git.commit("a.c")
    (git.folder / "line\u2028end.c").write_text("")
    git("add", "--all")
    git("commit", "--quiet", "--message", "odd \x1e\x1f signs", "--author", "A\x1f B <x@example.org>")
    git("commit", "--quiet", "--allow-empty", "--message", "empty")
    bad = git.commit("b.c")
    _, odd, empty, last = commit_range(git.folder, good, bad)
    assert (odd.author, odd.subject, odd.paths) == ("A\x1f B", "odd \x1e\x1f signs", {"line\u2028end.c"})
    assert (empty.paths, last.paths) == (frozenset(), {"b.c"})


def _changed(number: int, *paths: str) -> RangeCommit:
    return RangeCommit(hash=f"{number:040x}", parents=(), author="A", subject="", paths=frozenset(paths))


def test_commits_without_relevant_changes_get_a_low_prior() -> None:
    commits = [
        _changed(0),
        _changed(1, "kernels/rope.cu"),
        _changed(2, "docs/x.html", "a/README.md"),
        _changed(3, "tests/test_rope.py", "kernels/silu.cu"),
        _changed(4, "perf_suite/rope.py"),
        _changed(5, "requirements.txt"),
        _changed(6, "kernels/rope.cu"),
    ]
    weights = prior_weights(commits, benchmarks_folder="perf_suite")
    assert (weights == 1.0).tolist() == [True, False, True, False, True, True]
    assert weights[[1, 3]].max() < 0.01
    narrow = prior_weights(commits, source_paths=["kernels/rope.cu"], benchmarks_folder="perf_suite")
    assert (narrow == 1.0).tolist() == [True, False, False, False, False, True]
    assert narrow[2] > narrow[1]
    folder = prior_weights(commits, source_paths=["kernels"], benchmarks_folder="perf_suite")
    assert (folder == 1.0).tolist() == [True, False, True, False, False, True]


def test_commits_between_equal_machine_code_get_a_low_prior() -> None:
    commits = [_changed(number, "a.cu") for number in range(7)]
    code_hashes = {commits[0].hash: "x", commits[3].hash: "x", commits[6].hash: "y"}
    assert (prior_weights(commits, code_hashes=code_hashes) == 1.0).tolist() == [False, False, False, True, True, True]


@pytest.fixture
def store(tmp_path: Path):
    opened = Store(f"sqlite:///{tmp_path / 'history.db'}")
    yield opened
    opened.close()


def test_a_series_is_given_by_key_or_by_a_pattern_that_matches_one(store: Store, tmp_path: Path) -> None:
    results = AsvResults(tmp_path / "results")
    results.benchmark("suite.Bench.track_latency", n=["10", "100"])
    results.benchmark("suite.Bench.track_bandwidth", unit="GB/s")
    rows = {
        "suite.Bench.track_latency": results.row([1.0, 2.0], [["10", "100"]]),
        "suite.Bench.track_bandwidth": results.row([3.0]),
    }
    results.commit(0, rows)
    results.commit(0, rows, machine="other")
    results.load(store)
    one = which_series(store, "demo", r"latency\(10\)", machine="box")
    assert (one.parameters, one.machine) == ((("n", "10"),), "box")
    assert which_series(store, "demo", one.key) == one
    assert which_series(store, "demo", "Bench", machine="box", metric="bandwidth").metric.name == "bandwidth"
    with pytest.raises(SeriesError, match=rf"2 series match 'Bench' on box; give the key of one:\n  .*{one.key}"):
        which_series(store, "demo", "Bench", machine="box")
    with pytest.raises(NoSeriesError, match="no asv series 'Bunch'"):
        which_series(store, "demo", "Bunch")
    assert patterns(store, one) == (r"^suite\.Bench\.track_latency\(.?10.?\)$",)
    assert controls_of(store, one) == ()


def test_earlier_runs_have_their_controls_and_the_gpu_of_the_newest(store: Store, tmp_path: Path) -> None:
    suite = Suite(AsvResults(tmp_path / "results"))
    suite.commit(0, card="GPU-other", code="x")
    suite.commit(0, hour=40, code="x")
    suite.commit(1, hour=2, status="failed", reason="does not build")
    suite.commit(2, hour=3, moved={"warpwatch": 1.1, "eager": 1.02, TRIAD: 1.03}, code="y")
    suite.commit(9, hour=4)  # not of the range
    suite.asv.load(store)
    series = which_series(store, "demo", r"rope.*latency\(w1, warpwatch\)")
    assert [(each.suite, each.implementation) for each in controls_of(store, series)] == [
        ("benchmarks.control.Control", "canary"),
        ("benchmarks.control.Control", "canary"),
        ("benchmarks.rope.Rope", "eager"),
    ]
    own, canary, matmul = patterns(store, series)
    assert re.search(own, "benchmarks.rope.Rope.track_latency('w1', 'eager')")
    assert {
        bool(re.search(each, f"benchmarks.control.Control.track_latency('{TRIAD}', 'canary')"))
        for each in (canary, matmul)
    } == {True, False}

    hashes = [hash_of(number) for number in range(3)]
    bench = AsvBench(AsvRuns(folder=tmp_path, store=store, project="demo"), series, hashes, cached_builds=2)
    newest = max(point.run_time for point in queries.series_points(store, series.key) if point.run_time).timestamp()
    runs, failed = bench.earlier(newest + 60)
    assert [run.index for run in runs] == [0, 2]
    assert failed == {1}
    before, after = runs
    assert after.value - before.value == pytest.approx(math.log(1.1), abs=0.003)
    moved = [new - old for old, new in zip(before.controls, after.controls, strict=True)]
    assert sorted(moved) == pytest.approx([0.0, math.log(1.02), math.log(1.03)], abs=0.003)
    assert bench.earlier(newest + 30 * 86_400) == ((), frozenset())
    assert queries.ran_codes(store, series.key, hashes) == {hashes[0]: "x", hashes[2]: "y"}


def test_the_next_alert_is_the_worst_of_this_machine_that_spans_several_commits(
    store: Store, git: Git, tmp_path: Path
) -> None:
    hashes = [git.commit("a.c") for _ in range(40)]
    results = AsvResults(tmp_path / "results")
    factors = {"suite.Small.track_latency": 1.3, "suite.Large.track_latency": 2.0, "suite.Near.track_latency": 3.0}
    for name in factors:
        results.benchmark(name)
    for number in [*range(10), *range(30, 40)]:
        rows = {}
        for name, factor in factors.items():
            is_bad = number >= (31 if "Near" in name else 30)  # of Near the last good commit is the one before
            value = (factor if is_bad else 1.0) * (1 + 0.005 * (number % 3))
            rows[name] = results.row([value], started_at=number + 1, spread=0.002)
        results.commit(number, rows, commit=hashes[number])
    results.load(store, repository=git.folder)
    assert next_alert(store, "demo", "box", git.folder) is None  # no alert was sent
    for group in new_regressions(store, "demo"):
        open_regression_alert(store, group, messages={}, now_ms=1)
    alert = next_alert(store, "demo", "box", git.folder)
    assert alert is not None
    assert alert.series.benchmark == "suite.Large.track_latency"
    assert (alert.good, alert.bad) == (hashes[9], hashes[30])
    assert next_alert(store, "demo", "elsewhere", git.folder) is None
    assert next_alert(store, "demo", "box", tmp_path) is None  # git does not know the commits there
    for alert in regression_alerts(store, "demo"):
        expected = RegressionUpdate(held=(), resolved=frozenset(), state=AlertState.EXPECTED)
        assert update_regression_alert(store, alert, expected, messages={}, now_ms=2)
    assert next_alert(store, "demo", "box", git.folder) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["time_it"], "takes SERIES GOOD BAD"),
        (["--next", "time_it", "a", "b"], "takes SERIES GOOD BAD"),
        (["time_it", "HEAD", "no-such-branch"], "has no commit 'no-such-branch'"),
        (["(", "HEAD~1", "HEAD"], "neither a series' key nor a regular expression"),
        (["0123456789abcdef", "HEAD~1", "HEAD"], "no asv series '0123456789abcdef'"),
    ],
)
def test_invalid_arguments_are_named(words: list[str], message: str, git: Git, tmp_path: Path) -> None:
    git.commit("a.c")
    git.commit("a.c")
    (git.folder / "asv.conf.json").write_text('{"version": 1, "project": "demo", "repo": "."}')
    (tmp_path / ".asv-machine.json").write_text('{"box": {"machine": "box"}, "version": 1}')
    environment = {"HOME": str(tmp_path), "WARPWATCH_DATABASE": f"sqlite:///{tmp_path / 'history.db'}"}
    done = run_command("bisect", *words, folder=git.folder, environment=environment)
    assert done.returncode == 2
    assert message in done.stderr
