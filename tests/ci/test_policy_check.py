"""What warpwatch.toml makes of a check: real repositories, real stores, the command as it is run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ci.judged_repository import JudgedRepository, judged_repository
from warpwatch.ci.policy.policy_file import parse_policy
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Series, Workload
from warpwatch.dashboard.model.thresholds import series_limits

SLOWER = {("rope.Rope.track_latency", "fp16"): 0.06, ("rope.Rope.track_latency", "fp32"): 0.06}


def _series(benchmark: str = "suite.rope.Rope.track_latency", machine: str = "t4", **parameters: str) -> Series:
    return Series(
        key="0" * 16,
        project="p",
        benchmark=benchmark,
        parameters=tuple(parameters.items()),
        metric=metric("latency", "seconds"),
        machine=machine,
        environment="",
        workload=parameters.get("workload"),
        implementation=None,
        is_baseline=False,
        listed=True,
    )


WORKLOAD = Workload(
    benchmark="suite.rope.Rope",
    operator="rope",
    name="w1",
    dtype="fp16",
    flops=1.0,
    bytes=1.0,
    parameters={"heads": 32},
    kernels=(),
    baselines=(),
)


def test_the_last_rule_that_states_a_key_counts_for_that_key_alone() -> None:
    policy = parse_policy(
        """
        [gate]
        threshold = 0.03
        [[rule]]
        benchmark = "*"
        threshold = 0.05
        owners = ["@all"]
        blocks = false
        [[rule]]
        machine = "t4"
        threshold = 0.04
        floor = "0.5 us"
        [[rule]]
        machine = "h200"
        threshold = 0.01
        """,
        "warpwatch.toml",
    )
    limits = series_limits(policy.limits, {}, threshold=0.02)
    here = limits(_series())
    assert (here.threshold, here.floor, here.blocks, here.owners) == (0.04, 0.5e-6, False, ("@all",))
    assert limits(_series(machine="h200")).threshold == 0.01
    assert series_limits(policy.limits, {}, threshold=0.02, threshold_of_all=0.5)(_series()).threshold == 0.5
    assert series_limits(parse_policy("", "-").limits, {}, threshold=0.02)(_series()).threshold == 0.02


@pytest.mark.parametrize(
    ("match", "applies"),
    [
        ('kernel = "ro?e"', True),
        ('kernel = ["sum", "rope"]', True),
        ('kernel = "Rope"', False),
        ('benchmark = "*.track_latency"', True),
        ('metric = "registers"', False),
        ('machine = "t4"\nkernel = "sum"', False),  # all keys have to match
        ('parameters = {dtype = "fp16", heads = "32"}', True),  # of the workload
        ('parameters = {implementation = "warp*"}', True),  # of the series
        ('parameters = {page = "*"}', False),  # it has none
    ],
)
def test_a_rule_applies_to_series_that_match_every_key(match: str, applies: bool) -> None:
    rule = parse_policy(f"[[rule]]\n{match}\nblocks = false", "-").rule[0]
    assert rule.matches(_series(workload="w1", implementation="warpwatch"), WORKLOAD) is applies


def _stated(done: Any) -> dict[str, Any]:
    assert done.stdout, done.stderr
    return {
        f"{row['series']['benchmark']} {row['series']['parameters']['dtype']}": row
        for row in json.loads(done.stdout)["rows"]
    }


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> JudgedRepository:
    """Both rope series are 6 % slower: 6 µs of one, 0.12 µs of the other. The policy is base's; head's is lax."""
    root = tmp_path_factory.mktemp("policy")
    return judged_repository(
        root,
        database=f"sqlite:///{root / 'h.db'}",
        slower=SLOWER,
        policy='[gate]\nfloor = "0.5 us"\n',
        head_policy="[gate]\nthreshold = 0.9\n",
    )


def test_a_floor_only_excuses_small_absolute_changes(repository: JudgedRepository) -> None:
    done = repository.check("--format", "json")
    rows = _stated(done)
    assert done.returncode == 1
    assert rows["rope.Rope.track_latency fp16"]["verdict"] == "regressed"
    assert rows["rope.Rope.track_latency fp32"]["verdict"] == "unchanged"
    assert rows["rope.Rope.track_latency fp32"]["estimate"]["change"] > 0.05


def test_a_change_is_compared_by_the_policy_of_base(repository: JudgedRepository) -> None:
    done = repository.check()
    assert done.returncode == 1
    assert "head changes warpwatch.toml, which counts for later commits" in done.stdout
    assert repository.check("--policy", "warpwatch.toml").returncode == 0


def test_a_non_blocking_regression_is_reported_and_does_not_fail(repository: JudgedRepository, tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"
    policy.write_text('[[rule]]\nkernel = "rope"\nblocks = false\nowners = "@ann"\n')
    done = repository.check("--policy", str(policy))
    assert done.returncode == 0, done.stdout
    assert "no regression that blocks" in done.stdout
    assert "does not block" in done.stdout
    assert "2 regressed (2 not blocking), 1 unchanged" in done.stdout
    row = _stated(repository.check("--policy", str(policy), "--format", "json"))["rope.Rope.track_latency fp16"]
    assert (row["blocks"], row["owners"]) == (False, ["@ann"])


def test_a_threshold_of_the_command_line_is_above_every_rule(repository: JudgedRepository, tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"
    policy.write_text('[[rule]]\nkernel = "rope"\nthreshold = 0.5\n')
    assert repository.check("--policy", str(policy)).returncode == 0
    assert repository.check("--policy", str(policy), "--threshold", "0.03").returncode == 1


def test_a_wrong_policy_stops_the_check(repository: JudgedRepository, tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"
    policy.write_text("[gate]\nthresold = 0.1\n")
    done = repository.check("--policy", str(policy))
    assert done.returncode == 2
    assert "[gate] has no key thresold; did you mean threshold?" in done.stderr


def test_policy_check_lists_matches_and_rules_without_effect(repository: JudgedRepository, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        """
        [[rule]]
        kernel = "rope"
        threshold = 0.05
        [[rule]]
        kernel = "roep"
        blocks = false
        [[rule]]
        benchmark = "*"
        threshold = 0.04
        floor = "3 registers"
        """
    )
    done = repository.warpwatch("policy", "check", str(path))
    assert done.returncode == 1
    assert "Of 4 series with verdicts in demo:" in done.stdout
    assert "[[rule]] number 1 (kernel rope): 2 series (rope): threshold 0.05" in done.stdout
    assert "number 2 (kernel roep): 0 series: does not block" in done.stdout
    for fault in (
        "number 2 matches no series",
        "number 3 has a floor of 3 registers, but its series are in seconds: it has no effect",
        "number 1 sets threshold, which later rules override for all its series",
    ):
        assert fault in done.stderr


def test_policy_check_without_a_valid_file_or_a_store(repository: JudgedRepository, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[gate]\nruns = 1\n")
    wrong = repository.warpwatch("policy", "check", str(path))
    assert (wrong.returncode, "[gate] runs = 1: expected runs of each commit at most" in wrong.stderr) == (2, True)
    path.write_text("[gate]\nruns = 3\n")
    elsewhere = replace(repository, database=f"sqlite:///{tmp_path / 'no.db'}").warpwatch("policy", "check", str(path))
    assert (elsewhere.returncode, "Without a store" in elsewhere.stdout) == (0, True)
    assert not (tmp_path / "no.db").exists()
    nowhere = replace(repository, folder=tmp_path).warpwatch("policy", "check")
    assert (nowhere.returncode, "no warpwatch.toml here or above" in nowhere.stderr) == (2, True)


@pytest.mark.parametrize("floor", ["0.1 usec", "1 parsec"])
@pytest.mark.parametrize("has_store", [True, False])
def test_policy_check_warns_of_a_floor_in_an_unknown_unit(
    floor: str, has_store: bool, repository: JudgedRepository, tmp_path: Path
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'[gate]\nfloor = "{floor}"\n')
    there = repository if has_store else replace(repository, database=f"sqlite:///{tmp_path / 'no.db'}")
    done = there.warpwatch("policy", "check", str(path))
    assert done.returncode == 1
    assert f"Warning: [gate] has a floor of {floor}" in done.stderr
