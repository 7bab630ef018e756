"""asv's result files are read as asv writes them, oddities included."""

import json
from typing import Any

import pytest

from tests.asv_results import COLUMNS
from warpwatch.dashboard.importers.asv import read_result
from warpwatch.dashboard.importers.input_files import BrokenFileError
from warpwatch.dashboard.model.result_file import ResultFile
from warpwatch.dashboard.model.series import Status


def _read(results: str | dict[str, Any], **more: Any) -> ResultFile:
    """Reads a file with the given `results`; a string goes in as it stands, so that it may hold a bare NaN."""
    head = {
        "commit_hash": "ab" * 20,
        "env_name": "env",
        "date": 1,
        "params": {"machine": "box"},
        "result_columns": list(COLUMNS),
    } | more
    text = results if isinstance(results, str) else json.dumps(results)
    return read_result(f'{json.dumps(head)[:-1]}, "results": {text}}}'.encode(), "abababab-env.json")


def test_a_value_comes_with_its_quartiles_and_sample_count() -> None:
    row = [[0.5], [], "1", 1700, 2.5, [0.4], [0.6], [0.45], [0.55], [3], [10]]
    entry = _read({"b.time_x": row}).entries[0]
    value = entry.values[0]
    assert (value.status, value.value, value.q25, value.q75, value.sample_count) == (Status.OK, 0.5, 0.45, 0.55, 10)
    assert (entry.started_ms, entry.duration_s) == (1700, 2.5)


def test_samples_are_counted_where_they_are_kept() -> None:
    row = [[0.5], [], "1", 1700, 2.5, None, None, [0.45], [0.55], [1], [10], [[0.4, 0.5, 0.6]]]
    value = _read({"b.time_x": row}).entries[0].values[0]
    assert (value.samples, value.sample_count) == ((0.4, 0.5, 0.6), 3)


def test_combinations_are_in_asvs_order() -> None:
    values = _read({"b.f": [[1.0, 2.0, 3.0, 4.0], [["'a'", "'b'"], ["1", "2"]]]}).entries[0].values
    assert [(value.parameters, value.value) for value in values] == [
        (("'a'", "1"), 1.0),
        (("'a'", "2"), 2.0),
        (("'b'", "1"), 3.0),
        (("'b'", "2"), 4.0),
    ]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ("null", Status.FAILED),
        ("NaN", Status.UNAVAILABLE),
        ("Infinity", Status.INVALID),
        ("-Infinity", Status.INVALID),
        ('"seven"', Status.INVALID),
        ("{}", Status.INVALID),
        ("[1, 2]", Status.INVALID),
    ],
)
def test_what_is_no_number_has_a_status_and_a_reason_instead(raw: str, status: Status) -> None:
    value = _read(f'{{"b.f": [[{raw}, 1.0], [["1", "2"]]]}}').entries[0].values[0]
    assert (value.status, value.value) == (status, None)
    assert value.reason


@pytest.mark.parametrize(("raw", "number"), [('"1.5e-6"', 1.5e-6), ("true", 1.0), ("3", 3.0), ('"12"', 12.0)])
def test_numbers_in_other_clothes_are_numbers(raw: str, number: float) -> None:
    assert _read(f'{{"b.f": [[{raw}], []]}}').entries[0].values[0].value == number


def test_a_benchmark_that_failed_whole_failed_in_every_combination() -> None:
    values = _read({"b.f": [None, [["1", "2", "3"]], "1", 5, 0.1]}).entries[0].values
    assert [value.status for value in values] == [Status.FAILED] * 3


def test_rows_of_any_length_are_read() -> None:
    full = [[0.5], [], "1", 1700, 2.5, [0.4], [0.6], [0.45], [0.55], [3], [10], None, "profile"]
    for length in range(1, len(full) + 1):
        assert _read({"b.f": full[:length]}).entries[0].values[0].value == 0.5


def test_an_entry_whose_values_do_not_fit_its_parameters_is_left_out_and_named() -> None:
    result = _read({"b.bad": [[1.0, 2.0], [["1", "2", "3"]]], "b.good": [[1.0], []]})
    assert [entry.benchmark for entry in result.entries] == ["b.good"]
    assert result.problems == ("b.bad: 2 values for 3 parameter combinations",)


def test_a_quartile_column_of_another_length_is_left_out() -> None:
    values = _read({"b.f": [[1.0, 2.0], [["1", "2"]], "1", 1, 1, None, None, [0.9], [1.1]]}).entries[0].values
    assert [value.q25 for value in values] == [None, None]


def test_the_first_format_is_read() -> None:
    results = {
        "b.plain": 0.25,
        "b.param": {
            "result": [0.1, None],
            "params": [["1", "2"]],
            "stats": [{"q_25": 0.09, "q_75": 0.11, "number": 1, "repeat": 7}, None],
        },
    }
    entries = {
        entry.benchmark: entry for entry in _read(results, result_columns=None, started_at={"b.plain": 9}).entries
    }
    assert entries["b.plain"].values[0].value == 0.25
    assert entries["b.plain"].started_ms == 9
    first, second = entries["b.param"].values
    assert (first.value, first.q25, first.sample_count, second.status) == (0.1, 0.09, 7, Status.FAILED)


def test_two_runs_have_two_marks_and_one_run_has_one() -> None:
    first = _read({"b.f": [[1.0], [], "1", 100]}).entries[0].mark
    assert first == _read({"b.f": [[1.0], [], "1", 100]}).entries[0].mark
    assert first != _read({"b.f": [[1.0], [], "1", 200]}).entries[0].mark
    assert first != _read({"b.f": [[1.1], [], "1", 100]}).entries[0].mark


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"commit_hash": "ab", "results": {', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "a list"),
        (b"{}", "commit_hash"),
        (b'{"commit_hash": "ab"}', "results"),
        (b'{"commit_hash": "abababab", "results": {}, "date": "then"}', "date"),
    ],
)
def test_the_error_of_a_broken_file_names_the_fault(text: bytes, said: str) -> None:
    with pytest.raises(BrokenFileError, match=said):
        read_result(text, "ab-env.json")


def test_a_short_text_cannot_stand_for_more_values_than_memory_has_room_for() -> None:
    hundred, thousand = [str(n) for n in range(100)], [str(n) for n in range(1000)]
    failed = [None, [hundred, thousand], "1", 5]
    assert len(_read({f"b.f{n}": failed for n in range(5)}).entries.value) == 500_000
    with pytest.raises(BrokenFileError, match="more than 500,000 values"):
        _read({f"b.f{n}": failed for n in range(6)})


def test_the_file_name_gives_an_environment_that_the_text_lacks() -> None:
    assert _read({}, env_name=None).environment == "env"
