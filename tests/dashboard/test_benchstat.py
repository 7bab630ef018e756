"""`warpwatch benchstat` as it is run: real files, real processes; and what it makes of real runs of one commit."""

import csv
import gzip
import io
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.asv_results import AsvResults
from warpwatch.dashboard.benchstat.compare_sets import compare_sets
from warpwatch.dashboard.benchstat.result_set import NoResultSetError, read_result_set
from warpwatch.dashboard.benchstat.text import as_json
from warpwatch.dashboard.trials.benchstat_splits import compare_runs, every_tenth, only, planted, splits, tally

HOUSE = Path(__file__).resolve().parents[2]
REPEATED = sorted((HOUSE / "perf_suite/trials/repeatability-h200").glob("run-*.json.gz"))  # five runs of one commit
LATENCY, RATE = "suite.Rope.track_latency", "suite.Rope.track_bandwidth"
CASES = [f"'w{number}'" for number in range(8)]


def _benchstat(*arguments: str | Path, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    code = "from warpwatch.dashboard.benchstat.command import benchstat; benchstat()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)


def _json(a: str | Path, b: str | Path, *, search: str = "", stdin: bytes = b"") -> Any:
    """What `--format json` prints, without the process."""
    sets = [read_result_set(str(given), io.BytesIO(stdin)) for given in (a, b)]
    return json.loads(as_json(compare_sets(*sets, threshold=0.02, search=search)))


def _runs(folder: Path, factors: Sequence[float], *, moved: float = 1.0, started_at: int = 1) -> Path:
    """A folder of runs of eight cases that scatter by the factors; the last case moved."""
    asv = AsvResults(folder)
    asv.benchmark(LATENCY, workload=CASES)
    asv.benchmark(RATE, unit="GB/s")
    for number, factor in enumerate(factors):
        levels = [1e-5 * (case + 1) * (factor if (case + number) % 2 else 1.0) for case in range(8)]
        levels[-1] *= moved
        rows = {
            LATENCY: asv.row(levels, [CASES], started_at=started_at + number, spread=0.0005),
            RATE: asv.row([900.0 * factor], started_at=started_at + number, spread=0.0005),
        }
        path = asv.commit(0, rows)
        path.rename(path.with_name(f"run-{number}.json"))
    return folder


def test_a_case_that_moved_is_told_and_the_others_are_not(tmp_path: Path) -> None:
    base = _runs(tmp_path / "base", [1.001, 0.999, 1.002, 0.998])
    head = _runs(tmp_path / "head", [0.999, 1.002, 0.998, 1.001], moved=1.05)
    done = _benchstat(base, head)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"A  {base}: 4 runs, commit 00000000, machine box"
    assert "latency (seconds)" in lines
    assert "bandwidth (GB/s), higher is better" in lines
    (moved,) = [line for line in lines if "(w7)" in line]
    assert "+5." in moved
    assert "80.0 µs  ± 0." in moved
    assert "<0.001  4+4 (80)" in moved
    still = [line for line in lines if line.startswith("suite.Rope") and "(w7)" not in line]
    assert len(still) == 8
    assert all("  ~  " in line for line in still)
    (mean,) = [line for line in lines if line.startswith("geometric mean")]
    assert "+0.6 %" in mean  # the eighth root of 1.05


def test_programs_read_the_same_figures_as_json_and_csv(tmp_path: Path) -> None:
    base = _runs(tmp_path / "base", [1.001, 0.999, 1.002])
    head = _runs(tmp_path / "head", [0.999, 1.002, 0.998], moved=0.9)
    data = _json(base, head)
    (moved,) = [row for row in data["rows"] if row["parameters"] == {"workload": "w7"}]
    assert (moved["benchmark"], moved["unit"], moved["better"]) == (LATENCY, "seconds", "lower")
    assert (moved["a"]["value"], moved["a"]["runs"], moved["a"]["samples"]) == (pytest.approx(8e-5, rel=2e-3), 3, 30)
    assert moved["change"] == pytest.approx(-0.1, abs=0.003)
    assert moved["low"] < moved["change"] < moved["high"] < 0
    assert (moved["changed"], moved["noise_source"]) == (True, "reruns")
    assert sum(row["changed"] for row in data["rows"]) == 1
    lines = list(csv.DictReader(io.StringIO(_benchstat(base, head, "--format", "csv").stdout.decode())))
    assert [line["benchmark"] for line in lines].count("geometric mean") == 1
    (same,) = [line for line in lines if line["parameters"] == '{"workload": "w7"}']
    assert float(same["change"]) == moved["change"]
    assert float(same["a_value"]) == moved["a"]["value"]
    assert [row["unit"] for row in _json(base, head, search="BANDWIDTH")["rows"]] == ["GB/s"]


def test_one_run_each_never_claims_to_know_the_next_process(tmp_path: Path) -> None:
    """2 % with samples that scatter by 0.07 %: their own test would be sure; of two processes it says nothing."""
    base, head = _runs(tmp_path / "base", [1.0]), _runs(tmp_path / "head", [1.0], moved=1.02)
    data = _json(base, head)
    (moved,) = [row for row in data["rows"] if row["parameters"] == {"workload": "w7"}]
    assert (moved["changed"], moved["noise_source"], moved["runs_needed"] > 0) == (False, "assumed", True)
    assert any("9 of 9 have no repeated runs" in note for note in data["notes"])


def test_runs_of_another_day_do_not_count_as_one_sitting(tmp_path: Path) -> None:
    factors = [1.001, 0.999, 1.002]
    base = _runs(tmp_path / "base", factors)
    near = _runs(tmp_path / "near", factors, moved=1.03)
    late = _runs(tmp_path / "late", factors[:1], moved=1.03, started_at=86_400_000)
    noise = {
        head.name: next(row["noise"] for row in _json(base, head)["rows"] if row["parameters"] == {"workload": "w7"})
        for head in (near, late)
    }
    assert noise["near"] < 0.005
    assert noise["late"] >= 0.01  # as is assumed of two processes of which nothing is known


def test_stdin_may_hold_several_runs_and_files_may_be_compressed(tmp_path: Path) -> None:
    base = _runs(tmp_path / "base", [1.001, 0.999])
    head = _runs(tmp_path / "head", [0.999, 1.001])
    (tmp_path / "one").mkdir()
    packed = tmp_path / "one" / "run.json.gz"
    packed.write_bytes(gzip.compress((head / "box" / "run-0.json").read_bytes()))
    stream = b"\n".join(path.read_bytes() for path in sorted((base / "box").glob("run-*.json")))
    piped = _json("-", head, stdin=stream)
    assert (piped["a"]["runs"], piped["rows"][0]["a"]["runs"]) == (2, 2)
    assert [row["change"] for row in piped["rows"]] == [row["change"] for row in _json(base, head)["rows"]]
    assert _json(base / "box", packed)["b"]["runs"] == 1


def test_a_folder_of_several_commits_says_so_and_is_narrowed_by_one(tmp_path: Path) -> None:
    asv = AsvResults(tmp_path / "results")
    asv.benchmark(LATENCY)
    for number, level in ((1, 1.0), (2, 1.5)):
        asv.commit(number, {LATENCY: asv.row([level], spread=0.0005)})
    both = _json(asv.folder, f"{asv.folder}@00000002")
    assert any("A holds 2 commits, taken for runs of one" in note for note in both["notes"])
    (row,) = _json(f"{asv.folder}@00000001", f"{asv.folder}@00000002")["rows"]
    assert row["change"] == pytest.approx(0.5)
    both_in_a_file = tmp_path / "both.json"
    both_in_a_file.write_bytes(b"".join(path.read_bytes() for path in sorted((asv.folder / "box").glob("0*.json"))))
    assert _json(f"{both_in_a_file}@00000001", f"{both_in_a_file}@00000002")["rows"][0]["change"] == row["change"]
    with pytest.raises(NoResultSetError, match="no results of commit 7; it has 00000001, 00000002"):
        read_result_set(f"{asv.folder}@7", io.BytesIO())


def test_what_has_no_number_says_why_and_exact_quantities_have_no_noise(tmp_path: Path) -> None:
    a, b = AsvResults(tmp_path / "a"), AsvResults(tmp_path / "b")
    for asv, registers, values in ((a, 96, [1.0, None, 1.0]), (b, 128, [1.0, 1.0, float("nan")])):
        asv.benchmark("suite.K.track_registers", unit="registers")
        asv.benchmark(LATENCY, workload=CASES[:3])
        rows = {"suite.K.track_registers": asv.row([registers]), LATENCY: asv.row(values, [CASES[:3]], spread=0.01)}
        asv.commit(0, rows)
    rows = {
        row["title"] if "title" in row else str(row["parameters"]): row for row in _json(a.folder, b.folder)["rows"]
    }
    assert (rows["{}"]["change"], rows["{}"]["changed"], rows["{}"]["noise"]) == (pytest.approx(1 / 3), True, 0.0)
    assert rows["{'workload': 'w1'}"]["a"]["missing"] == "failed: the benchmark failed"
    assert rows["{'workload': 'w2'}"]["b"]["missing"] == "unavailable: not available here"
    assert rows["{'workload': 'w1'}"]["changed"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"nothing", "it begins with b'nothing'"),
        (b"{}", "JSON of no known format"),
        (b'{"commit_hash": 1, "results": {}}', "no 'commit_hash'"),
        (b"\x1f\x8bbroken", "broken gzip"),
        (b"", "holds no results"),
    ],
)
def test_what_is_no_result_is_named_with_its_reason(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(NoResultSetError, match=f"{path}.*{said}"):
        read_result_set(str(path), io.BytesIO())


@pytest.mark.parametrize("name", ["pytest_benchmark", "google_benchmark_repetitions", "nvbench"])
def test_other_formats_are_compared_alike(name: str) -> None:
    file = HOUSE / f"tests/dashboard/importers/recorded/{name}.json"
    data = _json(file, file)
    assert len(data["rows"]) >= 3
    assert {row["change"] for row in data["rows"]} <= {0.0, None}
    assert {row["changed"] for row in data["rows"]} <= {False, None}
    assert any("have no repeated runs" in note for note in data["notes"])


def test_a_broken_file_of_a_folder_is_named_and_the_others_count(tmp_path: Path) -> None:
    folder = _runs(tmp_path / "runs", [1.0, 1.001])
    (folder / "box" / "run-0.json").write_text("{")
    data = _json(folder, folder)
    assert data["a"]["runs"] == 1
    assert any("cannot read run-0.json: not JSON" in note for note in data["notes"])


def test_two_is_the_status_of_what_cannot_be_compared(tmp_path: Path) -> None:
    done = _benchstat(tmp_path / "absent", "-", stdin=b"{}")
    assert done.returncode == 2
    assert f"{tmp_path / 'absent'} does not exist".encode() in done.stderr
    unwritable = _benchstat(REPEATED[0], REPEATED[1], "--output", tmp_path / "absent" / "table")
    assert (unwritable.returncode, unwritable.stdout) == (2, b"")
    assert b"does not exist; create it" in unwritable.stderr


def test_of_five_runs_of_one_commit_nothing_is_told_and_what_is_planted_is_found() -> None:
    """217 latencies of an H200, two runs against three: nothing changed, and most cases say so to 2 %."""
    runs = [only(read_result_set(str(path), io.BytesIO()).runs[0], "track_latency") for path in REPEATED]
    assert len(runs) == 5
    cases = every_tenth(runs[0])
    for a, b in itertools.islice(splits(runs, [2]), 0, None, 5):
        same = tally(compare_runs(a, b))
        assert (same.compared, same.told) == (217, 0)
        assert same.settled > 190
        moved = tally(compare_runs(a, [planted(run, 0.1, cases) for run in b]))
        assert len(cases) - 1 <= moved.told <= len(cases) == 22
