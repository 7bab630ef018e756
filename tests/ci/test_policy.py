"""warpwatch.toml: what is read from it, what it says of a series, and what is said of a wrong one."""

from pathlib import Path

import pytest

from warpwatch.ci.policy.policy_file import PolicyError, find_policy, parse_policy, read_policy
from warpwatch.ci.policy.policy_model import Policy
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.thresholds import parse_floor


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert read_policy(None) == read_policy(tmp_path / "warpwatch.toml") == Policy()


def test_the_nearest_file_up_to_the_root_of_the_repository_counts(tmp_path: Path) -> None:
    inside = tmp_path / "outer" / "repository" / "suite" / "deep"
    inside.mkdir(parents=True)
    (tmp_path / "outer" / "repository" / ".git").mkdir()
    (tmp_path / "outer" / "warpwatch.toml").write_text("")
    assert find_policy(inside) is None
    (tmp_path / "outer" / "repository" / "warpwatch.toml").write_text("")
    assert find_policy(inside) == tmp_path / "outer" / "repository" / "warpwatch.toml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gate = [", "is not TOML"),
        ("[gate]\nthresold = 0.02", "[gate] has no key thresold; did you mean threshold?"),
        ("[gates]\nthreshold = 0.02", "the file has no table gates; did you mean gate?"),
        ("[gate]\nthreshold = 2", "[gate] threshold = 2: wanted the smallest relative change"),
        ('[gate]\nthreshold = "0.02"', "[gate] threshold = '0.02': wanted"),
        ("[gate]\nblocks = 1", "[gate] blocks = 1: wanted true or false"),
        ('[gate]\nfloor = "half"', "[gate] floor = 'half': wanted an amount with its unit"),
        ('[gate]\nbench = "("', "'(' is no regular expression"),
        ('[gate]\nfloor = "1e-3 us"', "[gate] floor = '1e-3 us': wanted an amount with its unit"),
        ("[gate]\nbudget_minutes = inf", "[gate] budget_minutes = inf: wanted minutes"),
        ('[alerts]\ndigest_at = "07:00+02:00"', "[alerts] digest_at = '07:00+02:00': wanted a time of day (UTC)"),
        ("[alerts]\nrecent_days = 1e6", "[alerts] recent_days = 1000000.0: wanted days"),
        ("rule = 3", "[rule] input should be an array"),
        ('[[rule]]\nkernel = "a"\nblocks = false\n[[rule]]\nblocks = true', "[[rule]] number 2 matches by nothing"),
        ('[[rule]]\nkernel = "a"', "[[rule]] number 1 states nothing"),
        ('[[rule]]\nkernel = ["a", 3]\nblocks = true', "[[rule]] number 1 kernel = 3: wanted a glob"),
        ("[[rule]]\nparameters = {dtype = 16}\nblocks = true", "[[rule]] number 1 parameters.dtype = 16: wanted"),
    ],
)
def test_a_fault_is_told_by_table_and_key_with_what_was_wanted(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as told:
        parse_policy(text, "warpwatch.toml")
    assert str(told.value).startswith("warpwatch.toml: ")
    assert said in str(told.value)


def test_every_fault_has_a_line_of_its_own() -> None:
    with pytest.raises(PolicyError) as told:
        parse_policy("[gate]\nruns = 1\nbudget_minutes = 0\n", "warpwatch.toml")
    assert [line.split(":")[1].split("=")[0].strip() for line in str(told.value).splitlines()] == [
        "[gate] runs",
        "[gate] budget_minutes",
    ]


@pytest.mark.parametrize(
    ("floor", "name", "unit", "wanted"),
    [
        ("0.5 us", "latency", "seconds", 0.5e-6),
        ("0.5 µs", "latency", "ms", 0.5e-3),
        ("64 KiB", "peak_memory", "bytes", 65536),
        ("2 registers", "registers", "registers", 2),
        ("0.5 us", "registers", "registers", None),
        ("1 MB", "latency", "seconds", None),
    ],
)
def test_a_floor_speaks_in_its_metrics_unit(floor: str, name: str, unit: str, wanted: float | None) -> None:
    told = parse_floor(floor).of(metric(name, unit))
    assert told == (pytest.approx(wanted) if wanted is not None else None)
