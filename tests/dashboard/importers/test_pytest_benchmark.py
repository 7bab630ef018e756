"""pytest-benchmark's files, recorded ones and those of a real run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dashboard.importers.recorded_files import COMMIT, read, recorded, values
from warpwatch.dashboard.importers.formats import read_any
from warpwatch.dashboard.importers.input_files import BrokenFileError, ImportOverrides
from warpwatch.dashboard.model.series import Status

FILE = "pytest_benchmark.json"


def test_a_value_is_the_median_with_the_files_quartiles() -> None:
    (result,) = read(recorded(FILE), ImportOverrides())
    stats = recorded(FILE)["benchmarks"][0]["stats"]
    value = values(result, "test_b.test_plain")[()]
    assert (value.value, value.q25, value.q75, value.sample_count) == (
        stats["median"],
        stats["q1"],
        stats["q3"],
        stats["rounds"],
    )
    listed = result.listed["test_b.test_plain"]
    assert (listed.unit, listed.kind) == ("seconds", "time")


def test_saved_rounds_are_samples() -> None:
    (result,) = read(recorded(FILE), ImportOverrides())
    value = values(result, "test_b.TestGroup.test_in_class")[()]
    assert len(value.samples) == value.sample_count == 5


def test_commit_dates_machine_and_python_are_read_from_the_file() -> None:
    (result,) = read(recorded(FILE), ImportOverrides())
    assert (result.commit, result.machine) == ("511595a15db84e09a5c39d4dea85d6101a446eaf", "vm")
    assert result.environment == "pytest-benchmark, CPython 3.11"
    assert result.date_ms == 1795300697000  # of the commit
    assert result.entries[0].started_ms == 1795300698274  # of the run
    assert (result.details["cpu"], result.details["num_cpu"]) == ("AMD EPYC", "2")


def test_what_is_given_counts_and_another_commit_is_named() -> None:
    (result,) = read(recorded(FILE), ImportOverrides(commit=COMMIT, date_ms=5, machine="bench-1"))
    assert (result.commit, result.date_ms, result.machine) == (COMMIT, 5, "bench-1")
    assert any("511595a1" in problem and COMMIT[:8] in problem for problem in result.problems)


def test_parameters_have_the_names_and_values_of_the_test() -> None:
    (result,) = read(recorded(FILE))
    assert result.listed["test_b.test_sum"].parameter_names == ("dtype", "n")
    assert set(values(result, "test_b.test_sum")) == {
        ("'fp16'", "10"),
        ("'fp16'", "100"),
        ("'fp32'", "10"),
        ("'fp32'", "100"),
    }
    assert set(values(result, "test_b.test_odd")) == {("'a-b [c]'",), ("None",), ("[1, 2]",)}


def test_a_parameter_that_is_an_object_is_named_by_the_tests_id() -> None:
    """Its repr may hold an address, which would make a new series of each run."""
    data = recorded(FILE)
    odd = next(b for b in data["benchmarks"] if b["param"] == "x2")
    odd["params"] = {"x": "UNSERIALIZABLE[<object object at 0x7f21d0>]"}
    (result,) = read(data)
    assert ("'x2'",) in values(result, "test_b.test_odd")


def test_files_of_before_parameters_had_names_are_read() -> None:
    """Version 2.5 has no "param" and no "params", no times of commits, and dates without a zone."""
    data = recorded(FILE)
    data["benchmarks"] = [b for b in data["benchmarks"] if b["name"].startswith("test_sum")]
    for record in data["benchmarks"]:
        del record["param"], record["params"], record["extra_info"]
    data["commit_info"] = {"id": COMMIT, "dirty": False}
    data["datetime"] = "2015-08-15T00:04:18.687119"
    (result,) = read(data, ImportOverrides())
    assert set(values(result, "test_b.test_sum")) == {("'fp16-10'",), ("'fp16-100'",), ("'fp32-10'",), ("'fp32-100'",)}
    assert result.date_ms == result.entries[0].started_ms == 1_439_597_058_687


def test_a_test_in_a_folder_is_named_like_its_module() -> None:
    data = recorded(FILE)
    data["benchmarks"] = data["benchmarks"][:1]
    data["benchmarks"][0]["fullname"] = "bench/gpu/test_rope.py::TestRope::test_apply"
    (result,) = read(data)
    assert result.entries[0].benchmark == "bench.gpu.test_rope.TestRope.test_apply"


def test_a_benchmark_without_statistics_failed() -> None:
    data = recorded(FILE)
    data["benchmarks"][0]["stats"] = None
    (result,) = read(data)
    assert values(result, "test_b.test_plain")[()].status is Status.FAILED


def test_an_impossible_number_of_rounds_is_left_out() -> None:
    data = recorded(FILE)
    data["benchmarks"][0]["stats"]["rounds"] = 10**30
    (result,) = read(data)
    assert values(result, "test_b.test_plain")[()].sample_count is None


def test_uncommitted_changes_are_reported() -> None:
    data = recorded(FILE)
    data["commit_info"]["dirty"] = True
    (result,) = read(data)
    assert any("uncommitted changes" in problem for problem in result.problems)


def test_without_a_repository_the_commit_must_be_given() -> None:
    data = recorded(FILE)
    data["commit_info"] = {"unversioned": True, "dirty": False}
    with pytest.raises(BrokenFileError, match="--commit"):
        read(data, ImportOverrides())
    (result,) = read(data, ImportOverrides(commit=COMMIT))
    assert result.date_ms == result.entries[0].started_ms  # nothing else has a date


def test_a_run_of_the_installed_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_sum(benchmark, n):\n"
        "    benchmark.pedantic(sum, args=([n],), rounds=4)\n"
    )
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "a change"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--benchmark-json=out.json",
            "--benchmark-save-data",
            "--benchmark-autosave",
            "test_it.py",
        ],
        # pytest-benchmark switches itself off in a worker of pytest-xdist, and this may run in one.
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (saved,) = (tmp_path / ".benchmarks").rglob("*.json")
    for path in (tmp_path / "out.json", saved):
        (result,) = read_any(path.read_bytes(), path.name, ImportOverrides(), lambda name: None)
        assert result.commit == head
        (entry,) = result.entries
        data = json.loads(path.read_bytes())["benchmarks"]
        assert entry.benchmark == "test_it.test_sum"
        assert [value.samples for value in entry.values] == [tuple(b["stats"]["data"]) for b in data]
