"""What a runner's timer does, with a real remote repository and real asv: new commits are fetched and measured."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.asv_environment import put_asv_environment
from warpwatch.ci.host_lock import GpuBusyError, gpu_lock

_CONF = {
    "version": 1,
    "project": "tiny",
    "repo": ".",
    "branches": ["HEAD"],
    "environment_type": "virtualenv",
    "results_dir": ".asv/results",
    "env_dir": ".asv/env",
    "install_command": [],
    "uninstall_command": [],
    "build_command": [],
}
_BENCHMARK = "def track_one():\n    return {value}\ntrack_one.unit, track_one.version = 'seconds', '1'\n"


def _git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _commit(folder: Path, value: int, **more: object) -> str:
    (folder / "benchmarks").mkdir(exist_ok=True)
    (folder / "benchmarks/__init__.py").touch()
    (folder / "benchmarks/tiny.py").write_text(_BENCHMARK.format(value=value))
    (folder / "asv.conf.json").write_text(json.dumps({**_CONF, **more}))
    (folder / ".gitignore").write_text(".asv\n__pycache__\n")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", f"the value is {value}")
    return _git(folder, "rev-parse", "HEAD")


def test_a_timer_measures_what_came_and_the_newest_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    origin, checkout, home = tmp_path / "origin", tmp_path / "checkout", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(origin)], check=True)
    first = _commit(origin, 1)
    subprocess.run(["git", "clone", "--quiet", str(origin), str(checkout)], check=True)
    environ = {**os.environ, "HOME": str(home)}
    add_machine = [sys.executable, "-m", "asv", "machine", "--yes", "--machine", "box"]
    subprocess.run(add_machine, cwd=checkout, env=environ, check=True, capture_output=True)
    put_asv_environment(tmp_path_factory, checkout)

    def measure(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "warpwatch.ci.cli", "runner", "measure", *words]
        return subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, check=False)

    def measured() -> dict[str, int]:
        """When each commit's value was measured, in milliseconds."""
        found = {}
        for path in (checkout / ".asv/results/box").glob("*-*.json"):
            result = json.loads(path.read_text())
            row = dict(zip(result["result_columns"], result["results"]["tiny.track_one"], strict=False))
            found[result["commit_hash"]] = row["started_at"]
        return found

    done = measure()
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(measured()) == {first}
    second = _commit(origin, 2)
    before = measured()[first]
    done = measure("--rerun-newest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(measured()) == {first, second}
    assert measured()[first] == before  # it was passed over
    again = measured()[second]
    assert measure("--rerun-newest", "--no-fetch").returncode == 0
    assert measured()[second] > again
    assert measured()[first] == before

    _git(checkout, "commit", "--quiet", "--allow-empty", "--message", "of this machine alone")
    _commit(origin, 3)
    refused = measure()
    assert refused.returncode == 1
    assert "git merge" in refused.stderr


def test_a_commit_that_does_not_build_is_passed_over(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    project = tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(project)], check=True)
    build = {"build_command": ["python {conf_dir}/build.py {build_dir}"]}
    (project / "build.py").write_text("import sys, pathlib\nsys.exit(pathlib.Path(sys.argv[1], 'broken').exists())\n")
    first = _commit(project, 1, **build)
    (project / "broken").touch()
    broken = _commit(project, 2, **build)
    (project / "broken").unlink()
    third = _commit(project, 3, **build)
    environ = {**os.environ, "HOME": str(tmp_path), "WARPWATCH_LOCK_FOLDER": str(tmp_path)}
    environ |= {"CUDA_VISIBLE_DEVICES": "", "WARPWATCH_DATABASE": f"sqlite:///{tmp_path / 'runner.db'}"}
    add_machine = [sys.executable, "-m", "asv", "machine", "--yes", "--machine", "box"]
    subprocess.run(add_machine, cwd=project, env=environ, check=True, capture_output=True)
    put_asv_environment(tmp_path_factory, project)
    command = [sys.executable, "-m", "warpwatch.ci.cli", "runner", "measure", "--no-fetch", "--confirm"]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{third[:8]} against {first[:8]}: no suspicion" in done.stderr
    assert broken[:8] not in done.stderr


def test_a_false_suspicion_is_measured_again_within_the_days_budget(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(project)], check=True)
    (project / "warpwatch.toml").write_text("[confirm]\nminutes_per_day = 0.0001\n")
    first = _commit(project, 1)
    environ = {**os.environ, "HOME": str(tmp_path), "WARPWATCH_LOCK_FOLDER": str(tmp_path)}
    environ |= {"CUDA_VISIBLE_DEVICES": "", "WARPWATCH_DATABASE": f"sqlite:///{tmp_path / 'runner.db'}"}
    add_machine = [sys.executable, "-m", "asv", "machine", "--yes", "--machine", "box"]
    subprocess.run(add_machine, cwd=project, env=environ, check=True, capture_output=True)
    put_asv_environment(tmp_path_factory, project)

    def measure() -> str:
        command = [sys.executable, "-m", "warpwatch.ci.cli", "runner", "measure", "--no-fetch", "--confirm"]
        done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    assert measure() == ""  # the first commit has none before it
    second = _commit(project, 2)
    said = measure()
    assert f"{second[:8]} against {first[:8]}: 1 suspicious series, measured again:" in said
    assert "no further runs, as 0.0001 minutes of confirmations are spent today" in said
    archives = [*project.glob(".asv/results/.runs/*.tar.zst")]
    assert len(archives) == 1  # base's first run, before one further run, which may end after the budget
    (budget,) = tmp_path.glob("*.confirmations")
    assert json.loads(budget.read_text())["seconds"] > 0.006
    assert "no further runs" in measure()  # nor now; the interrupted confirmation of the newest commit goes on
    assert [*project.glob(".asv/results/.runs/*.tar.zst")] == archives


def test_an_asv_that_goes_on_after_its_trust_was_killed_keeps_the_lock(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project, mark = tmp_path / "project", tmp_path / "measuring"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(project)], check=True)
    _commit(project, 1)
    (project / "benchmarks/tiny.py").write_text(
        f"import time\nfrom pathlib import Path\n\ndef track_one():\n    Path({str(mark)!r}).touch()\n"
        "    time.sleep(50)\n    return 1\n"
    )
    _git(project, "commit", "--all", "--quiet", "--message", "slow")
    environ = {**os.environ, "HOME": str(tmp_path), "WARPWATCH_LOCK_FOLDER": str(tmp_path)}
    environ["CUDA_VISIBLE_DEVICES"] = ""
    add_machine = [sys.executable, "-m", "asv", "machine", "--yes", "--machine", "box"]
    subprocess.run(add_machine, cwd=project, env=environ, check=True, capture_output=True)
    put_asv_environment(tmp_path_factory, project)
    command = [sys.executable, "-m", "warpwatch.ci.cli", "runner", "trust", "--runs", "1"]
    trust = subprocess.Popen(
        command, cwd=project, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while not mark.exists():
            assert trust.poll() is None
            time.sleep(0.1)
        trust.kill()
        trust.wait()
        with pytest.raises(GpuBusyError), gpu_lock([], wait_s=0, folder=tmp_path):
            pass
    finally:
        os.killpg(trust.pid, signal.SIGKILL)
