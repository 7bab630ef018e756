"""What the workflows do on a GPU's machine, step by step on this one: a small asv project is measured for real."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.asv_environment import put_asv_environment
from tests.ci.workflows.running import run_step
from warpwatch.ci.gate.artefact import read_artefact
from warpwatch.dashboard.model.comparison import Outcome

BIN = Path(sys.executable).parent
CONF = {
    "version": 1,
    "project": "kernels",
    "repo": ".",
    "branches": ["HEAD"],
    "environment_type": "virtualenv",
    "benchmark_dir": "benchmarks",
    "results_dir": ".asv/results",
    "env_dir": ".asv/env",
    "html_dir": ".asv/html",
    "build_command": [],
    "uninstall_command": [],
    "install_command": ["python -c \"import shutil; shutil.copy('{build_dir}/microseconds', '{env_dir}')\""],
}
BENCHMARK = """
import os
from pathlib import Path

class Rope:
    params, param_names, unit, version = ([1, 2],), ("rows",), "seconds", "1"

    def track_latency(self, rows):
        return rows * float(Path(os.environ["ASV_ENV_DIR"], "microseconds").read_text()) / 1e6
"""


@pytest.fixture
def project(tmp_path, tmp_path_factory, monkeypatch):
    """A repository of two commits: the second has each benchmark take 7 microseconds for 5."""
    folder = tmp_path / "kernels"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "asv.conf.json").write_text(json.dumps(CONF))
    (folder / "benchmarks/__init__.py").touch()
    (folder / "benchmarks/rope.py").write_text(BENCHMARK)
    (folder / ".gitignore").write_text(".asv\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    for microseconds in ("5", "7"):
        (folder / "microseconds").write_text(microseconds)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"{microseconds} microseconds")
    put_asv_environment(tmp_path_factory, folder)
    monkeypatch.setenv("HOME", str(tmp_path))  # asv keeps the machine there
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("WARPWATCH_LOCK_FOLDER", str(tmp_path))
    return folder


def git(folder, *words):
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def gate(project, tmp_path, bench):
    base, head = git(project, "rev-parse", "HEAD~1", "HEAD").split()
    values = {
        "needs.plan.outputs.base": base,
        "needs.plan.outputs.head": head,
        "inputs.folder": ".",
        "inputs.bench": bench,
        "inputs.budget": "30",
        "matrix.gpu": "gpu-t4",
        "strategy.job-total": "2",
    }
    return run_step(
        "gate.yml", "measure", "Measure base and head in turns", folder=project, temporary=tmp_path, values=values
    )


def test_a_regression_leaves_the_machine_as_one_file(project, tmp_path):
    done = gate(project, tmp_path, bench="")
    assert done.returncode == 0, done.stdout + done.stderr
    artefact = read_artefact(tmp_path / "gate-gpu-t4.json")
    assert artefact.outcome is Outcome.REGRESSED
    assert artefact.family_error == 0.005  # 1 % of two machines together
    assert [artefact.base.hash, artefact.head.hash] == git(project, "rev-parse", "HEAD~1", "HEAD").split()
    assert [row.estimate.change for row in artefact.rows if row.estimate] == [pytest.approx(0.4)] * 2


def test_a_gate_judges_this_machine_alone_though_another_measured_the_commits_since(project, tmp_path):
    """As when the gates of two GPUs share a database: there both commits are alike."""
    results, name = tmp_path / "elsewhere", "rope.Rope.track_latency"
    (results / "elsewhere").mkdir(parents=True)
    (results / "elsewhere/machine.json").write_text('{"machine": "elsewhere", "version": 1}')
    (results / "benchmarks.json").write_text(
        json.dumps({name: {"name": name, "param_names": [], "params": [], "type": "track", "unit": "seconds"}})
    )
    for commit in git(project, "rev-parse", "HEAD~1", "HEAD").split():
        (results / f"elsewhere/{commit[:8]}-env.json").write_text(
            json.dumps(
                {
                    "commit_hash": commit,
                    "env_name": "env",
                    "date": 1_750_000_000_000,
                    "params": {},
                    "version": 2,
                    "result_columns": ["result", "params", "version", "started_at"],
                    "results": {name: [[5e-6], [], "1", 4_000_000_000_000]},
                }
            )
        )
    database = f"sqlite:///{tmp_path}/gate.db"
    warpwatch("import", str(results), "--project", "kernels", "--repository", str(project), "--database", database)
    done = gate(project, tmp_path, bench="")
    assert done.returncode == 0, done.stdout + done.stderr
    artefact = read_artefact(tmp_path / "gate-gpu-t4.json")
    assert artefact.outcome is Outcome.REGRESSED
    assert artefact.machine != "elsewhere"
    assert len(artefact.rows) == 2


def test_a_commit_that_cannot_be_measured_fails_the_job_by_leaving_nothing(project, tmp_path):
    done = gate(project, tmp_path, bench="no_such_benchmark")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "gate-gpu-t4.json").exists()  # upload-artifact ends with an error then


def test_what_was_measured_is_read_and_pushed_by_the_second_job(project, tmp_path):
    values = {"inputs.folder": ".", "inputs.bench": "Rope"}
    done = run_step("measure.yml", "measure", "Measure", folder=project, temporary=tmp_path, values=values)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "found").symlink_to(project / ".asv/results")
    read = run_step(
        "measure.yml",
        "push",
        "Read every file as the dashboard will",
        folder=tmp_path,
        temporary=tmp_path,
        values={"inputs.project": "kernels"},
    )
    assert read.returncode == 0, read.stdout + read.stderr
    pushed = push(tmp_path)
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    report = warpwatch("report", "--database", f"sqlite:///{tmp_path}/dashboard.db")
    assert "7.00 µs" in report


def push(tmp_path):
    """The step, to a dashboard that serves."""
    database = f"sqlite:///{tmp_path}/dashboard.db"
    token = warpwatch("token", "create", "--project", "kernels", "--name", "gpu", "--database", database).split()[-1]
    serve = ["warpwatch", "serve", "--port", "0", "--database", database]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = re.search(r"http://[\d.:]+", server.stdout.readline())[0]
            values = {"inputs.project": "kernels", "inputs.dashboard": url, "secrets.WARPWATCH_TOKEN": token}
            return run_step("measure.yml", "push", "Push", folder=tmp_path, temporary=tmp_path, values=values)
        finally:
            server.terminate()


def warpwatch(*words):
    return subprocess.run(["warpwatch", *words], check=True, capture_output=True, text=True).stdout
