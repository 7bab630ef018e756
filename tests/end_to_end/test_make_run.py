"""`make run` on a small project with a real asv: it serves, measures, shows the results, ends and goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.asv_environment import put_asv_environment
from tests.asv_results import AsvResults
from warpwatch.dashboard.store import Store

PATIENCE_S = 300  # for what hangs
_ASV = f"{sys.executable} -m asv"
_MAKEFILE = f"""
setup: ; @test ! -e no-network || {{ echo 'no route to the package index'; false; }}
build: ; @echo '[1/1] link _C.abi3.so'
measure:
	@{_ASV} machine --yes > /dev/null
	mkdir -p .asv && git log --max-count=$(COMMITS) --format=%H > .asv/commits.txt
	{_ASV} run --skip-existing HASHFILE:.asv/commits.txt || test $$? -eq 2
"""
_CONF = {
    "version": 1,
    "project": "warpwatch",
    "repo": ".",
    "branches": ["HEAD"],
    "environment_type": "virtualenv",
    "env_dir": ".asv/env",
    "results_dir": ".asv/results",
    "install_command": ["python -c pass"],
    # A commit with the file `long` is one that compiles until its time has come.
    "build_command": ["python {conf_dir}/compile.py"],
    "uninstall_command": ["return-code=any python -c pass"],
}
_COMPILE = """
import pathlib, time
while pathlib.Path("long").exists() and not (pathlib.Path(__file__).parent / "now").exists():
    time.sleep(0.05)
"""
_BENCHMARKS = "class Sum:\n    unit = 'seconds'\n    def track_latency(self): return 1.0\n"


@dataclass
class Project:
    """A repository whose newest of two commits is measured at once, and whose other one waits for a file."""

    folder: Path
    environment: dict[str, str]

    def processes(self) -> list[str]:
        """The commands of all processes that work in the folder or name it."""
        found = []
        for path in Path("/proc").iterdir():
            try:
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                place = (path / "cwd").readlink()
            except OSError:
                continue
            if path.name.isdecimal() and str(self.folder) in f"{command} {place}" and command:
                found.append(command)
        return found


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path / "project"
    (folder / "benchmarks").mkdir(parents=True)
    for name, text in (
        ("Makefile", _MAKEFILE),
        ("asv.conf.json", json.dumps(_CONF)),
        ("compile.py", _COMPILE),
        ("long", ""),
        ("benchmarks/__init__.py", ""),
        ("benchmarks/sums.py", _BENCHMARKS),
        (".gitignore", ".asv\n.warpwatch\n"),
    ):
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["commit", "-q", "-m", "one"],
        ["rm", "-q", "long"],
        ["commit", "-q", "-m", "two"],
    ):
        subprocess.run([*git, *words], check=True)
    put_asv_environment(tmp_path_factory, folder)
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1", "BROWSER": "true"}
    environment.pop("WARPWATCH_DATABASE", None)
    recorded = AsvResults(tmp_path / "recorded")
    recorded.benchmark("sums.Sum.track_latency")
    recorded.commit(1, {"sums.Sum.track_latency": recorded.row([1.0], started_at=1)}, machine="recorded")
    store = Store(f"sqlite:///{folder / '.warpwatch' / 'warpwatch.db'}")
    recorded.load(store, project="warpwatch")
    store.close()
    return Project(folder=folder, environment=environment)


@dataclass
class Run:
    """One `make run` under way."""

    process: subprocess.Popen[str]
    said: list[str]
    address: str

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.address}{path}", timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
        return text

    def measurement(self) -> Any:
        return json.loads(self.get("api/projects/warpwatch/measurement"))

    def wait_for(self, is_so: Callable[[Any], bool]) -> Any:
        """The first state of the measurement that is so."""
        for _ in range(PATIENCE_S * 5):
            state = self.measurement()
            if is_so(state):
                return state
            assert state["state"] == "running", state
            time.sleep(0.2)
        raise AssertionError(f"it never came to that: {state}")

    def interrupt(self) -> int:
        """Ctrl+C, as a terminal sends it; returns the exit status."""
        os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.stdout is not None
        self.said += self.process.stdout.read().splitlines()
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def make_run(project: Project) -> Iterator[Run]:
    command = [sys.executable, "-m", "warpwatch.ci.make_run", "--commits", "2", "--port", "0", "--", "make"]
    with subprocess.Popen(
        command, cwd=project.folder, env=project.environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            said = [process.stdout.readline() for _ in range(3)]
            address = re.search(r"http://\S+", said[0])
            assert address, said
            yield Run(process=process, said=said, address=address[0])
        finally:
            if process.poll() is None:
                process.terminate()


def test_results_appear_commit_by_commit_and_an_interrupted_run_is_resumed(project: Project) -> None:
    with make_run(project) as run:
        assert "First page after" in run.said[2]
        state = run.wait_for(lambda now: now["imports"] == 1)
        assert (state["commit"], state["commits"]) == (2, 2)
        page = run.get("warpwatch/")
        runners = page.partition('id="runners"')[2].partition("</section>")[0]
        assert runners.count("<li>") == 2  # the recorded machine, and this one
        assert "commit 2 of 2" in page
        assert any("compile.py" in command for command in project.processes())
        assert run.interrupt() == 130
    assert project.processes() == []

    (project.folder / "now").touch()
    with make_run(project) as run:
        run.wait_for(lambda now: now["state"] == "finished")
        assert "3 commits" in run.get("warpwatch/")
        assert run.interrupt() == 0
    log = (project.folder / ".warpwatch" / "measure.log").read_text()
    assert len(re.findall(r"· For warpwatch commit", log)) == 1, log
    assert run.said[-1] == "Measured. The dashboard serves until Ctrl+C."
    assert project.processes() == []


def test_a_failed_step_is_named_while_the_dashboard_serves_on(project: Project) -> None:
    (project.folder / "no-network").touch()
    with make_run(project) as run:
        state = run.wait_for(lambda now: now["state"] == "failed")
        assert state["problem"] == ("installing PyTorch and asv ended with status 2; see .warpwatch/measure.log")
        assert state["problem"] in run.get("warpwatch/")
        assert run.interrupt() == 1
    assert any(line.startswith("Failed: installing PyTorch and asv ended with status 2; see ") for line in run.said)
    assert "no route to the package index" in (project.folder / ".warpwatch" / "measure.log").read_text()
