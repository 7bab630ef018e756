"""asv itself over this suite: which files it leaves with the results, and which not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A repository of one commit with this suite in it."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "perf_suite", folder / "perf_suite", ignore=shutil.ignore_patterns("results", "__pycache__"))
    for name in ("asv.conf.json", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def asv(project, *arguments):
    environment = {**os.environ, "HOME": str(project), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "asv", *arguments]
    return subprocess.run(command, cwd=project, env=environment, check=False, capture_output=True, text=True)


# Something of each session that there is; of what is read and compiled, one, and what has no parameters.
ASKED = (
    r"rope\.Rope",
    "HostOverhead.*rope",
    "CompiledLibrary",
    r"Compiled(Code|Twins)\..*\('_?vector_add(_pieces)?', 'sm_90a'\)",
)


def run(project, *arguments):
    here = ["-E", f"existing:{sys.executable}", "--set-commit-hash", "HEAD", "--record-samples"]
    asked = [word for name in ASKED for word in ("-b", name)]
    return asv(project, "run", *here, "--machine", "here", "--quick", *asked, *arguments)


def contexts(project):
    return list((project / ".asv" / "results").rglob("*.context.jsonl"))


def test_a_saved_run_has_its_context_file_and_a_dry_run_leaves_nothing(project):
    assert asv(project, "machine", "--yes", "--machine", "here").returncode == 0
    dry = run(project, "--dry-run")
    assert "Rope.track_latency" in dry.stdout, dry.stdout + dry.stderr
    assert contexts(project) == []
    assert list((project / ".asv" / "context").iterdir()) == []

    saved = run(project)
    (context,) = contexts(project)
    results = json.loads(context.with_name(context.name.replace(".context.jsonl", ".json")).read_text())
    lines = [json.loads(line) for line in context.read_text().splitlines()]
    runs = [line for line in lines if line["record"] == "run"]
    assert {line["commit"] for line in runs} == {results["commit_hash"]}
    assert {line["environment"] for line in runs} == {results["env_name"]}
    eager = [line for line in lines if line["record"] == "measurement" and line["implementation"] == "eager"]
    assert {line["status"] for line in eager} == {"ok"}, saved.stdout
    latencies = results["results"]["benchmarks.rope.Rope.track_latency"][0]
    assert any(abs(line["latency_s"] - value) < 1e-12 for line in eager for value in latencies if value)
    assert list((project / ".asv" / "context").iterdir()) == []
