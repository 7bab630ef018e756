"""The commands: their exit status and what they print."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from warpwatch.dashboard.store import Store

BENCH = "suite.Bench.track_latency"
QUIET = [1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.001]


@pytest.fixture
def warpwatch(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a command in an empty folder."""

    def run(*arguments: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
        return run_command(*arguments, folder=tmp_path, environment=environment)

    return run


def test_import_says_what_it_did_and_again_that_nothing_is_new(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any], tmp_path: Path
) -> None:
    results = timed_history([1.0, 2.0])
    first = warpwatch("import", results.folder, "--project", "demo")
    assert (first.returncode, first.stderr) == (0, "")
    assert "demo: 2 new points from 2 files" in first.stdout
    assert (tmp_path / ".warpwatch" / "warpwatch.db").is_file()
    again = warpwatch("import", results.folder, "--project", "demo")
    assert "0 new points from 0 files, 2 files unchanged" in again.stdout


def test_import_reports_a_rejected_file_by_status_three(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any]
) -> None:
    results = timed_history([1.0, 2.0])
    broken = next((results.folder / "box").glob("00000001*.json"))
    broken.write_text("{")
    done = warpwatch("import", results.folder)
    assert done.returncode == 3
    assert str(broken) in done.stderr
    assert "1 new points" in done.stdout


def test_import_of_nothing_is_an_error_with_a_reason(warpwatch: Callable[..., Any], tmp_path: Path) -> None:
    done = warpwatch("import", tmp_path)
    assert done.returncode == 1
    assert "has no readable result of asv, pytest-benchmark, NVBench and Google Benchmark" in done.stderr


def test_import_takes_options_for_facts_missing_in_the_file(warpwatch: Callable[..., Any]) -> None:
    file = Path(__file__).parent / "importers" / "recorded" / "nvbench.json"
    without = warpwatch("import", file, "--project", "demo")
    assert without.returncode == 3
    assert f"set aside: {file}: no commit: NVBench does not record it; give it (--commit" in without.stderr
    facts = ["--commit", "ab" * 20, "--date", "2026-01-01", "--machine", "lab"]
    done = warpwatch("import", file, "--project", "demo", *facts)
    assert (done.returncode, done.stderr) == (0, "")
    assert "demo: 37 new points from 1 files" in done.stdout
    wrong = warpwatch("import", file, "--commit", "ab" * 20, "--date", "soon")
    assert wrong.returncode == 2
    assert "'soon' is no date" in wrong.stderr


def test_a_token_is_printed_once_listed_without_itself_and_revoked(warpwatch: Callable[..., Any]) -> None:
    made = warpwatch("token", "create", "--project", "demo", "--name", "t4 runner")
    assert made.returncode == 0
    assert made.stderr == "the project demo is new\n"
    secret = made.stdout.strip()
    assert secret.startswith("warpwatch_")
    assert warpwatch("token", "revoke", "1").stdout == "token 1 is revoked\n"
    listed = warpwatch("token", "list").stdout
    assert "t4 runner" in listed
    assert "ended 20" in listed
    assert secret not in listed
    again = warpwatch("token", "revoke", "1")
    assert again.returncode == 1
    assert "no token 1 that still works" in again.stderr


def _check(
    warpwatch: Callable[..., Any], folder: Path, base: str, head: str, *more: str
) -> "subprocess.CompletedProcess[str]":
    assert warpwatch("import", folder, "--project", "demo").returncode == 0
    done: subprocess.CompletedProcess[str] = warpwatch("check", base, head, *more)
    return done


@pytest.mark.parametrize(
    ("value", "status", "word"),
    [
        (1.06, 1, "regressed"),
        (0.94, 0, "improved"),
        (1.003, 0, "1 unchanged"),
        (1.15, 1, "regressed"),
    ],
)
def test_check_ends_in_what_became_of_the_series(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any], value: float, status: int, word: str
) -> None:
    results = timed_history([*QUIET, value])
    done = _check(warpwatch, results.folder, "0000000b", "0000000c")
    assert (done.returncode, done.stderr) == (status, "")
    assert word in done.stdout
    assert "…" not in done.stdout.replace(" … ", "")  # only a terminal cuts lines


def test_check_of_a_noisy_pair_is_inconclusive(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any]
) -> None:
    results = timed_history([1.0, 1.3, 0.8, 1.1, 0.9, 1.25, 1.0, 0.75, 1.2, 0.95, 1.0, 1.05])
    done = _check(warpwatch, results.folder, "0000000a", "0000000b")
    assert done.returncode == 2
    assert "too noisy to compare" in done.stdout
    assert " by history)" in done.stdout


def test_check_reports_a_failure_at_head_with_its_reason(warpwatch: Callable[..., Any], asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)})
    asv.commit(2, {BENCH: asv.row([None], started_at=2)})
    done = _check(warpwatch, asv.folder, "00000001", "00000002")
    assert done.returncode == 1
    assert "invalid" in done.stdout
    assert "the benchmark failed" in done.stdout


def test_a_check_of_one_commit_or_of_no_such_machine_says_so(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any]
) -> None:
    same = _check(warpwatch, timed_history([*QUIET, 1.06]).folder, "0000000c", "0000000c")
    assert (same.returncode, same.stderr) == (2, "Error: 0000000c and 0000000c are the same commit, 0000000c\n")
    nowhere = warpwatch("check", "0000000b", "0000000c", "--machine", "nope")
    assert (nowhere.returncode, nowhere.stderr) == (2, "Error: no machine 'nope' in demo; it has: box\n")


def test_a_threshold_decides_what_matters(warpwatch: Callable[..., Any], timed_history: Callable[..., Any]) -> None:
    results = timed_history([*QUIET, 1.06])
    arguments = ("0000000b", "0000000c")
    assert _check(warpwatch, results.folder, *arguments, "--threshold", "0.1").returncode == 0
    assert warpwatch("check", *arguments, WARPWATCH_THRESHOLD="0.1").returncode == 0
    assert warpwatch("check", *arguments, "--threshold", "0.05").returncode == 1
    assert "WARPWATCH_THRESHOLD" in warpwatch("check", *arguments, WARPWATCH_THRESHOLD="ten").stderr


def test_check_as_json_holds_every_series(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any], tmp_path: Path
) -> None:
    results = timed_history([*QUIET, 1.06])
    done = _check(warpwatch, results.folder, "0000000b", "0000000c", "--format", "json", "--output", "check.json")
    assert (done.returncode, done.stdout) == (1, "")
    data = json.loads((tmp_path / "check.json").read_text())
    assert (data["outcome"], data["counts"]["regressed"]) == ("regressed", 1)
    (row,) = data["rows"]
    estimate = row["estimate"]
    assert estimate["change"] == pytest.approx(0.059, abs=0.001)
    assert estimate["ci_low"] < estimate["change"] < estimate["ci_high"]
    assert row["series"]["benchmark"] == BENCH
    assert (estimate["noise_source"], estimate["noise"]) == ("history", pytest.approx(0.0018, abs=0.001))


def test_check_as_markdown_puts_the_verdict_first(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any]
) -> None:
    done = _check(warpwatch, timed_history([*QUIET, 1.06]).folder, "0000000b", "0000000c", "--format", "markdown")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("### warpwatch: regressed")
    assert any(line.startswith("| **regressed** | `suite.Bench.track_latency`") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["feed", "0000000b"], "no commit 'feed'"),
        (["0000000", "0000000b"], "several commits start with '0000000'"),
        (["0000000b", "0000000b", "--project", "other"], "no project 'other'"),
    ],
)
def test_check_of_unknown_commits_is_inconclusive_and_says_why(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any], arguments: list[str], said: str
) -> None:
    done = _check(warpwatch, timed_history(QUIET).folder, *arguments)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout


def test_check_takes_branches_and_tags_where_the_repository_is_known(
    warpwatch: Callable[..., Any], asv: Any, tmp_path: Path
) -> None:
    repository = tmp_path / "repo"
    git = ["git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    repository.mkdir()
    for command in (
        ["init", "-q", "-b", "main"],
        ["commit", "-q", "--allow-empty", "-m", "one"],
        ["tag", "v1"],
        ["commit", "-q", "--allow-empty", "-m", "two"],
    ):
        subprocess.run([*git, *command], check=True)
    hashes = subprocess.run([*git, "log", "--format=%H"], check=True, capture_output=True, text=True).stdout.split()
    for number, (commit, value) in enumerate(zip(reversed(hashes), (1.0, 3.0), strict=True)):
        asv.commit(number, {BENCH: asv.row([value], started_at=number + 1)}, commit=commit)
    warpwatch("import", asv.folder, "--repository", repository)
    done = warpwatch("check", "v1", "main")
    assert done.returncode == 1
    assert "“two”" in done.stdout
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "three"], check=True)
    unmeasured = warpwatch("check", "v1", "main")
    assert unmeasured.returncode == 2
    assert "has no results" in unmeasured.stderr


def test_a_drift_that_all_controls_show_is_the_machines(warpwatch: Callable[..., Any], asv: Any) -> None:
    """Head ran on a machine 5 % slower in everything; one workload is 20 % slower than that."""
    suite, workloads = "benchmarks.rope.Rope", [f"'w{n}'" for n in range(5)]
    params = [workloads, ["'warpwatch'", "'eager'"]]
    asv.benchmark(f"{suite}.track_latency", workload=workloads, implementation=params[1])
    for number in range(12):
        drift = 1.05 if number == 11 else 1 + 0.001 * (number % 3)
        values = [
            drift * (1.2 if number == 11 and n == 2 and ours else 1.0) for n in range(5) for ours in (True, False)
        ]
        started = 1_767_225_600_000 + number * 60_000
        path = asv.commit(number, {f"{suite}.track_latency": asv.row(values, params, started_at=started, spread=0.001)})
        run = {
            "record": "run",
            "schema": 1,
            "run": f"r{number}",
            "commit": "c",
            "environment": "e",
            "started_at": "2025-12-31T00:00:00+00:00",
            "device": "cuda",
        }
        described = [
            {
                "record": "workload",
                "run": f"r{number}",
                "benchmark": suite,
                "operator": "rope",
                "workload": f"w{n}",
                "parameters": {},
                "dtype": "fp16",
                "flops": 1,
                "bytes": 1,
                "kernels": ["warpwatch"],
                "baselines": ["eager"],
            }
            for n in range(5)
        ]
        asv.context(path, run, *described)
    done = _check(warpwatch, asv.folder, "0000000a", "0000000b", "--format", "json")
    data = json.loads(done.stdout)
    assert data["drifts"] == [
        {"machine": "box", "change": pytest.approx(0.049, abs=0.002), "controls": 5, "canaries": []}
    ]
    assert {row["series"]["parameters"]["workload"]: row["verdict"] for row in data["rows"]} == {
        "w0": "unchanged",
        "w1": "unchanged",
        "w2": "regressed",
        "w3": "unchanged",
        "w4": "unchanged",
    }
    worst = data["rows"][0]
    assert worst["estimate"]["change"] == pytest.approx(0.2, abs=0.01)
    assert worst["control_change"] == pytest.approx(0.049, abs=0.002)


def test_report_prints_the_newest_commit_as_text_and_json(
    warpwatch: Callable[..., Any], timed_history: Callable[..., Any], tmp_path: Path
) -> None:
    Store(str(tmp_path / ".warpwatch" / "warpwatch.db")).close()
    assert "nothing is recorded" in warpwatch("report").stdout
    warpwatch("import", timed_history([1.0, 2e-3]).folder, "--project", "demo")
    text = warpwatch("report").stdout
    assert "box at 00000001" in text
    assert "2.00 ms" in text
    (row,) = json.loads(warpwatch("report", "--json").stdout)["rows"]
    assert (row["latency_s"], row["project"], row["speed_of_light"]) == (2e-3, "demo", None)
    assert json.loads(warpwatch("report", "--json", "--machine", "none").stdout)["rows"] == []


def test_a_database_that_does_not_answer_is_an_error_not_a_traceback(warpwatch: Callable[..., Any]) -> None:
    done = warpwatch("report", "--database", "postgresql:///none?host=/nowhere")
    assert done.returncode == 2
    assert "cannot open the database" in done.stderr
    assert "Traceback" not in done.stderr
