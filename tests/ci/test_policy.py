"""Reading warpwatch.toml: defaults, errors, floors."""

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
    ("text", "message"),
    [
        ("gate = [", "is not TOML"),
        ("[gate]\nthresold = 0.02", "[gate] has no key thresold; did you mean threshold?"),
        ("[gates]\nthreshold = 0.02", "the file has no table gates; did you mean gate?"),
        ("[gate]\nthreshold = 2", "[gate] threshold = 2: expected the smallest relative change"),
        ('[gate]\nthreshold = "0.02"', "[gate] threshold = '0.02': expected"),
        ("[gate]\nblocks = 1", "[gate] blocks = 1: expected true or false"),
        ('[gate]\nfloor = "half"', "[gate] floor = 'half': expected an amount with its unit"),
        ('[gate]\nbench = "("', "'(' is not a regular expression"),
        ('[gate]\nfloor = "1e-3 us"', "[gate] floor = '1e-3 us': expected an amount with its unit"),
        ("[gate]\nbudget_minutes = inf", "[gate] budget_minutes = inf: expected minutes"),
        ('[alerts]\ndigest_at = "07:00+02:00"', "[alerts] digest_at = '07:00+02:00': expected a time of day (UTC)"),
        ("[alerts]\nrecent_days = 1e6", "[alerts] recent_days = 1000000.0: expected days"),
        ("rule = 3", "[rule] input should be an array"),
        ('[[rule]]\nkernel = "a"\nblocks = false\n[[rule]]\nblocks = true', "[[rule]] number 2 matches by nothing"),
        ('[[rule]]\nkernel = "a"', "[[rule]] number 1 states nothing"),
        ('[[rule]]\nkernel = ["a", 3]\nblocks = true', "[[rule]] number 1 kernel = 3: expected a glob"),
        ("[[rule]]\nparameters = {dtype = 16}\nblocks = true", "[[rule]] number 1 parameters.dtype = 16: expected"),
    ],
)
def test_an_error_names_table_key_and_expected_value(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "warpwatch.toml")
    assert str(error.value).startswith("warpwatch.toml: ")
    assert message in str(error.value)


def test_every_error_has_its_own_line() -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy("[gate]\nruns = 1\nbudget_minutes = 0\n", "warpwatch.toml")
    assert [line.split(":")[1].split("=")[0].strip() for line in str(error.value).splitlines()] == [
        "[gate] runs",
        "[gate] budget_minutes",
    ]


@pytest.mark.parametrize(
    ("floor", "name", "unit", "expected"),
    [
        ("0.5 us", "latency", "seconds", 0.5e-6),
        ("0.5 µs", "latency", "ms", 0.5e-3),
        ("64 KiB", "peak_memory", "bytes", 65536),
        ("2 registers", "registers", "registers", 2),
        ("0.5 us", "registers", "registers", None),
        ("1 MB", "latency", "seconds", None),
    ],
)
def test_a_floor_is_converted_to_its_metrics_unit(floor: str, name: str, unit: str, expected: float | None) -> None:
    value = parse_floor(floor).of(metric(name, unit))
    assert value == (pytest.approx(expected) if expected is not None else None)
