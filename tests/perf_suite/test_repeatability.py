"""Agreement between runs, against the textbook's formula, on asv's own files."""

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from warpbench.commands.repeatability import Series, absences, agreements, read_run, share_within, table

ROOT = Path(__file__).resolve().parents[2]
LATENCY = "benchmarks.rope.Rope.track_latency"


def result_file(path, rows):
    """As asv writes it: a grid over all parameters, NaN where a combination was not measured."""
    workloads = sorted({workload for workload, _ in rows})
    implementations = sorted({implementation for _, implementation in rows})
    grid = [rows.get((w, i), math.nan) for w in workloads for i in implementations]
    params = [[repr(w) for w in workloads], [repr(i) for i in implementations]]
    content = {
        "result_columns": ["result", "params", "version"],
        "results": {LATENCY: [grid, params, "1"], LATENCY.replace("latency", "cycles"): [grid, params, "1"]},
    }
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def runs(tmp_path, *levels):
    return [
        result_file(
            tmp_path / f"{index}.json{'.gz' if index % 2 else ''}", {("long", "a"): 1e-4 * level, ("short", "a"): 4e-6}
        )
        for index, level in enumerate(levels)
    ]


def test_variation_is_the_sample_standard_deviation_over_the_mean(tmp_path):
    files = runs(tmp_path, 1.0, 1.01, 0.99)
    worst, exact = agreements([read_run(file, "track_latency") for file in files])
    assert worst.series == Series(LATENCY, "long", "a")
    assert worst.variation == pytest.approx(0.01)
    assert exact.variation == 0
    assert share_within([worst, exact], 0.005) == 0.5


def test_what_one_run_lacks_has_no_figure_and_is_reported(tmp_path):
    whole = result_file(tmp_path / "a.json", {("w", "a"): 1e-5, ("w", "b"): 2e-5})
    part = result_file(tmp_path / "b.json", {("w", "a"): 1e-5, ("v", "b"): 2e-5})
    read = [read_run(whole, "track_latency"), read_run(part, "track_latency")]
    (only,) = agreements(read)
    assert only.series.implementation == "a"
    assert absences(read) == {Series(LATENCY, "w", "b"): (1,), Series(LATENCY, "v", "b"): (0,)}
    left_out = table(read).partition("Left out:")[2]
    assert left_out.split("|---|---|---|")[1].strip() == "| w | b | 2 |\n| v | b | 1 |"
    assert "Left out" not in table(read[:1] * 2)


def test_one_run_is_no_repetition(tmp_path):
    with pytest.raises(ValueError, match="two runs at least"):
        agreements([read_run(runs(tmp_path, 1.0)[0], "track_latency")])


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json is no result file"):
        read_run(tmp_path / "x.json", "track_latency")


def test_the_command_prints_the_table_and_refuses_with_a_sentence(tmp_path):
    command = [sys.executable, "-m", "warpbench", "repeatability"]
    files = list(map(str, runs(tmp_path, 1.0, 1.01, 0.99)))
    printed = subprocess.run([*command, *files], check=True, capture_output=True, text=True).stdout
    assert "| above 10 µs | 1 | 1.00% | 1.00% | 1.00% | 0.0% within 0.5% |" in printed
    assert "| 10 µs and below | 1 | 0.00% | 0.00% | 0.00% | 100.0% within 1.5% |" in printed
    refused = subprocess.run([*command, files[0]], check=False, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "two runs at least" in refused.stderr


def test_the_planted_slowdown_still_fits_the_kernel():
    patch = "perf_suite/trials/planted_slowdown.patch"
    checked = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_readme_shows_the_figures_of_the_recorded_runs():
    suite = ROOT / "perf_suite"
    files = sorted((suite / "trials" / "repeatability-h200").glob("*.json.gz"))
    assert len(files) >= 5
    command = [sys.executable, "-m", "warpbench", "repeatability", *map(str, files)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.strip() in (suite / "README.md").read_text()
