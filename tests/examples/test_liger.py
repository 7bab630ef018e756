"""The example of Liger-Kernel's releases, as far as a CPU goes: the history, the benchmarks, the recorded results."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpwatch.dashboard.importers.import_path import import_path
from warpwatch.dashboard.store.engine import Store

LIGER = Path(__file__).resolve().parents[2] / "examples/liger"
OPERATORS = [
    f"{name}{suffix}" for name in ("cross_entropy", "rms_norm", "rope", "swiglu") for suffix in ("", "_backward")
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that history.py makes."""
    spec = importlib.util.spec_from_file_location("liger_history", LIGER / "history.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    repository = tmp_path_factory.mktemp("liger") / "history"
    for _ in range(2):  # it can be made again
        module.make_history(repository)
    return repository


def _git(repository: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.outside
def test_each_release_is_a_commit_with_its_date_and_tag(history: Path) -> None:
    log = _git(history, "log", "--reverse", "--format=%cs %s", "main")
    assert log[0] == "2024-08-20 Liger-Kernel 0.1.0"
    assert log[-1] == "2026-10-21 Liger-Kernel 0.8.5"
    assert len(_git(history, "tag")) == len(log)
    assert _git(history, "show", "v0.8.5:requirements.txt") == ["liger-kernel==0.8.5"]
    assert _git(history, "status", "--short") == []


@pytest.mark.outside
def test_the_recorded_results_belong_to_these_commits_and_pass_the_gate(history: Path, tmp_path: Path) -> None:
    commits = set(_git(history, "log", "--format=%H", "main"))
    contexts = list((LIGER / "results").rglob("*.context.jsonl"))
    assert len(contexts) >= 6
    for context in contexts:
        lines = [json.loads(line) for line in context.read_text().splitlines()]
        assert {line["commit"] for line in lines if line["record"] == "run"} <= commits
        ours = [line for line in lines if line["record"] == "measurement" and line["implementation"] == "liger"]
        assert {line["status"] for line in ours} == {"ok"}
        assert all(line["relative_error"] is not None for line in ours), "a number without a correctness gate"
    summary = import_path(
        Store(f"sqlite:///{tmp_path / 'w.db'}"), LIGER / "results", project="liger-kernel", repository=history
    )
    assert not summary.set_aside
    assert summary.points > 0


@pytest.mark.outside
@pytest.mark.timeout(600)
def test_every_operator_is_right_and_measured_on_the_cpu() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "warpbench", "run", "--quick", "--device", "cpu"],
        cwd=LIGER,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for operator in OPERATORS:
        assert f"{operator} cpu-fp32" in done.stdout
    assert "failed" not in done.stdout
