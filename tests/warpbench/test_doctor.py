"""`warpbench doctor` names what is missing, each with its fix."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside

pytest.importorskip("torch")

BENCHMARK = """
from warpbench import Case, KernelBenchmark, kernel

class Double(KernelBenchmark):
    cases = [Case("n8", dtype="fp32", tolerance=1e-6, bytes=64, n=8)]

    def inputs(self, case, draw):
        return {"x": draw.activation(case.n)}

    def reference(self, x):
        return 2 * x

    @kernel
    def ours(self, x):
        return 2 * x
"""


def doctor(folder: Path, *, code: int) -> dict[str, str | None]:
    """Findings by their text, with the fixes."""
    command = [sys.executable, "-m", "warpbench", "doctor", "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return {finding["text"]: finding["fix"] for finding in json.loads(done.stdout)}


def configured(folder: Path, **values: object) -> None:
    configuration = {"version": 1, "project": "p", "repo": ".", "benchmark_dir": "benchmarks", **values}
    (folder / "asv.conf.json").write_text(json.dumps(configuration))


def test_a_folder_without_a_project_is_pointed_to_init(tmp_path: Path) -> None:
    (text,) = [text for text, fix in doctor(tmp_path, code=1).items() if fix == "warpbench init"]
    assert "there is no asv.conf.json" in text


def test_a_configuration_without_the_plugin_is_an_error_and_a_complete_one_lists_the_operators(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/__init__.py").touch()
    (tmp_path / "benchmarks/double.py").write_text(BENCHMARK)
    configured(tmp_path)
    fixes = doctor(tmp_path, code=1).values()
    assert 'add "plugins": [".warpbench.asv"] to asv.conf.json' in fixes
    configured(tmp_path, plugins=[".warpbench.asv"], environment_type="warpbench")
    found = doctor(tmp_path, code=0)
    assert found["double: 1 cases × ours"] is None


def test_a_benchmark_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/__init__.py").touch()
    (tmp_path / "benchmarks/broken.py").write_text("raise RuntimeError('no such kernel')\n")
    configured(tmp_path, plugins=[".warpbench.asv"], environment_type="warpbench")
    assert any("no such kernel" in text for text in doctor(tmp_path, code=1))
