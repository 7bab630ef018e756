"""A format is recognised by content; whatever else a file holds is an error of that file, in words."""

import contextlib
import json
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dashboard.importers.recorded_files import COMMIT, GIVEN, RECORDED
from warpwatch.dashboard.importers.formats import UnknownFormatError, read_any
from warpwatch.dashboard.importers.input_files import BrokenFileError, ImportOverrides, is_full_hash, milliseconds

FILES = sorted(path.name for path in RECORDED.glob("*.json"))
ASV = json.dumps(
    {
        "commit_hash": COMMIT,
        "env_name": "env",
        "date": 1,
        "params": {"machine": "box"},
        "version": 2,
        "result_columns": ["result", "params"],
        "results": {"suite.time_it": [[1.0], []]},
    }
).encode()


def _read(text: bytes, name: str = "anything", facts: ImportOverrides = GIVEN) -> Any:
    return read_any(text, name, facts, lambda _: None)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", ["x.txt", "benchmarks.json", "data"])
def test_the_file_name_does_not_matter(file: str, name: str) -> None:
    assert _read((RECORDED / file).read_bytes(), name)[0].entries


def test_an_asv_result_is_recognised_too() -> None:
    (result,) = _read(ASV, facts=ImportOverrides())
    assert (result.commit, result.machine) == (COMMIT, "box")
    assert [entry.benchmark for entry in result.entries] == ["suite.time_it"]


def test_an_asv_result_without_a_machine_requires_one() -> None:
    text = ASV.replace(b'"machine": "box"', b'"cpu": "a CPU"')
    with pytest.raises(BrokenFileError, match="--machine"):
        _read(text, facts=ImportOverrides())
    assert _read(text, facts=ImportOverrides(machine="lab"))[0].machine == "lab"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "no result file"),
        (b"hello", "no result file.*expected JSON of asv, pytest-benchmark, NVBench and Google Benchmark"),
        (b"\x00\x01\x02", "no result file"),
        (b'["a list"]', "no result file"),
        (b'{"name": "package", "version": 1}', "no known format.*'name', 'version'"),
        (b"{}", "no known format.*nothing"),
    ],
)
def test_the_error_of_an_unknown_format_describes_the_file(text: bytes, said: str) -> None:
    with pytest.raises(UnknownFormatError, match=said):
        _read(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ((RECORDED / "google_benchmark.json").read_bytes()[:1500], "not JSON"),  # as a run that crashed leaves it
        (b'{"benchmarks": "\xff\xfe"}', "not JSON"),
        (b'{"a":' * 100_000, "nested too deep|not JSON"),
        (b'{"context": {}, "benchmarks": [1, 2]}', "no machine"),
        (b'{"context": {"host_name": "x"}, "benchmarks": []}', "malformed Google Benchmark result"),
        (b'{"machine_info": {"node": "x"}, "benchmarks": [], "datetime": "2026-01-01"}', "no measured benchmark"),
        (b'{"machine_info": {"node": "x"}, "benchmarks": [{}], "datetime": "yesterday"}', "'yesterday' is no date"),
        (b'{"benchmarks": [{"states": 7}], "meta": {"version": {"json": {"major": 1}}}}', "malformed NVBench result"),
    ],
)
def test_the_error_of_a_broken_file_names_the_fault(text: bytes, said: str) -> None:
    with pytest.raises(BrokenFileError, match=said):
        _read(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(file=st.sampled_from(FILES), where=st.lists(st.integers(0, 30), min_size=1, max_size=7), what=_JSON)
def test_whatever_stands_where_something_else_should_is_read_or_refused(file: str, where: list[int], what: Any) -> None:
    """A value anywhere in a real file is replaced by any JSON: that is a result or a BrokenFileError, nothing else."""
    data = json.loads((RECORDED / file).read_bytes())
    place: Any = data
    for number in where[:-1]:
        keys: Any = list(place) if isinstance(place, dict) else range(len(place))
        if not keys or not isinstance(place[keys[number % len(keys)]], (dict, list)):
            break
        place = place[keys[number % len(keys)]]
    keys = list(place) if isinstance(place, dict) else range(len(place))
    if keys:
        place[keys[where[-1] % len(keys)]] = what
    with contextlib.suppress(BrokenFileError):
        for result in _read(json.dumps(data).encode()):
            assert result.machine
            assert len(result.commit) == 40
            assert all(value.value is None or isfinite(value.value) for e in result.entries for value in e.values)


def test_dates_are_iso_or_seconds() -> None:
    assert milliseconds("2026-11-21T22:38:17+00:00") == milliseconds("1795300697") == 1_795_300_697_000
    assert milliseconds("2026-11-21T22:38:17") == milliseconds("2026-11-21T23:38:17+01:00")
    with pytest.raises(ValueError, match="'soon' is no date"):
        milliseconds("soon")


def test_a_full_hash_has_forty_or_sixty_four_digits() -> None:
    assert is_full_hash("a" * 40)
    assert is_full_hash("0" * 64)
    assert not any(map(is_full_hash, ("abc", "a" * 41, "HEAD", "A" * 40)))
