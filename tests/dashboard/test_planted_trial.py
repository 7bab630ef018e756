"""Recorded trials of a planted slowdown: detections, misses and false alarms."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.asv_results import AsvResults
from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tools.planted_slowdown import alike, main, runs_of, tries

pytestmark = pytest.mark.outside

BEFORE, ODD, PLANTED, EVEN = range(4)  # commits
WORKLOADS = ("w1", "w2", "w3")
LEVELS = {"warpwatch": 7e-5, "triton": 7e-5, "eager": 7e-4, TRIAD: 1e-4, MATMUL: 1e-4}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return tmp_path / "recorded"


def record(folder: Path, planted: float, *, odd: float = 1.0, seed: int = 1) -> Path:
    """Runs of one card that scatter by 0.15 %, as rope's do on an H200, in an archive; `odd`: what moves odd bases."""
    random = np.random.default_rng(seed)
    suite = Suite(AsvResults(folder), workloads=WORKLOADS, levels=LEVELS, scatter=0.0)
    minute = 0

    def run(label: str, commit: int, factor: float) -> None:
        nonlocal minute
        minute += 1
        moved = {name: float(np.exp(0.0015 * random.standard_normal())) for name in LEVELS}
        moved["warpwatch"] *= factor
        code = ("b" if commit == PLANTED else "a") * 64
        file = suite.commit(commit, moved, code=code, hour=minute - 60 * commit)  # all within half an hour
        context = file.with_name(f"{file.stem}.context.jsonl")
        context.rename(file.with_name(f"{label}.context.jsonl"))
        file.rename(file.with_name(f"{label}.json"))

    for number in range(1, 6):
        run(f"gpu0-before-{number}", BEFORE, 1.0)
    for number in range(1, 5):
        run(f"gpu0-try-{number}-base", ODD if number % 2 else EVEN, odd if number % 2 else 1.0)
        run(f"gpu0-try-{number}-planted", PLANTED, planted)
    archive = folder.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, arcname=".")
    return archive


def judge(*archives: Path, pairs: int = 50) -> list[str]:
    done = CliRunner().invoke(main, [*map(str, archives), "--pairs", str(pairs)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_a_slowdown_is_detected_and_equal_bases_are_unchanged(recorded: Path) -> None:
    said = judge(record(recorded, 1.02))
    assert "| planted | 4 | in 4 | in 0 |" in said
    assert "| the same code | 4 | | in 0 |" in said
    (measured,) = [line for line in said if line.startswith("Measured")]
    assert 1.5 < float(measured.split("+")[1].split("%")[0]) < 2.5


def test_what_was_missed_and_what_was_wrong_is_named(recorded: Path) -> None:
    said = judge(record(recorded, 1.0, odd=1.03), pairs=1)
    assert "| planted | 4 | in 0 | in 2 |" in said
    assert "| the same code | 1 | | in 1 |" in said
    assert any(line.startswith("- gpu0-try-2-base and gpu0-try-2-planted: not detected; measured") for line in said)
    assert any(
        line.startswith("- gpu0-try-1-base and gpu0-try-2-base: ") and line.endswith("called changed") for line in said
    )


def test_pairs_are_of_one_card_and_two_commits_the_nearest_first(recorded: Path) -> None:
    record(recorded, 1.02)
    for file in list(recorded.glob("*/gpu0-try-*")):  # a second card, with one base
        if "try-1-" in file.name:
            file.rename(file.with_name(file.name.replace("gpu0", "gpu1")))
    runs = runs_of(recorded)
    assert [(base.file.stem, planted.file.stem) for base, planted in tries(runs)] == [
        (f"gpu{card}-try-{number}-base", f"gpu{card}-try-{number}-planted")
        for card, number in ((0, 2), (0, 3), (0, 4), (1, 1))
    ]
    assert [(one.number, other.number) for one, other in alike(runs, 50)] == [(2, 3), (3, 4)]


def test_an_archive_without_such_runs_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no <machine>/gpu<n>-try"):
        runs_of(tmp_path)


def test_the_recorded_runs_of_two_h200s_give_the_readme_s_table() -> None:
    trials = Path(__file__).parents[2] / "perf_suite/trials"
    said = judge(trials / "planted-slowdown-h200/runs.tar.gz")
    planted, same = said[2:4]
    assert "Of 60 kernels that were slower, 59 are detected." in said
    assert planted == "| planted | 20 | in 20 | in 0 |"
    assert same == "| the same code | 50 | | in 0 |"
    readme = (trials / "README.md").read_text()
    assert planted in readme
    assert same in readme
