"""Context lines reach the results they belong to, once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warpbench import spool
from warpbench.records import CompiledRecord, Cpu, RunRecord, to_line

COMMIT, OTHER_COMMIT = "a" * 40, "b" * 40


def run_record(run, commit=""):
    return RunRecord(
        run=run,
        commit=commit,
        environment="",
        started_at="2026-01-02T03:04:05+00:00",
        device="cpu",
        gpu=None,
        cpu=Cpu(model="EPYC", cores=2, threads=2),
        software={},
        ceilings=None,
    )


def compiled_record(run):
    return CompiledRecord(
        run=run,
        benchmark="b",
        operator="rope",
        kernel="k",
        architecture="sm_75",
        registers=1,
        stack_bytes=0,
        shared_bytes=0,
        local_memory_instructions=0,
        code_bytes=16,
        instructions={},
        sha256="",
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "spool"
    monkeypatch.setenv(spool.FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def target(tmp_path):
    (tmp_path / "machine").mkdir()
    return tmp_path / "machine" / "aaaaaaaa-env.context.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def move(folder, target):
    spool.move(folder, target, commit=COMMIT, environment="env")


def test_a_run_gets_the_commit_and_environment_of_the_results_it_is_moved_to(folder, target):
    spool.Spool("r1").append(run_record("r1"), compiled_record("r1"))
    move(folder, target)
    run, compiled = lines(target)
    assert (run["commit"], run["environment"]) == (COMMIT, "env")
    assert compiled["kernel"] == "k"
    assert list(folder.iterdir()) == []


def test_a_later_run_is_appended_and_nothing_is_moved_twice(folder, target):
    for run in ("r2", "r1"):
        spool.Spool(run).append(run_record(run))
        move(folder, target)
        move(folder, target)
    assert [line["run"] for line in lines(target)] == ["r2", "r1"]


def test_a_move_killed_before_the_spool_was_removed_doubles_nothing(folder, target):
    spool.Spool("r1").append(run_record("r1"), compiled_record("r1"))
    waiting = folder / "r1.jsonl"
    kept = waiting.read_text()
    move(folder, target)
    waiting.write_text(kept)
    move(folder, target)
    assert len(lines(target)) == 2


def test_a_run_of_another_commit_stays_where_it_is(folder, target):
    spool.Spool("r1").append(run_record("r1", commit=OTHER_COMMIT))
    move(folder, target)
    assert not target.exists()
    assert len(list(folder.iterdir())) == 1


def test_without_asv_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(spool.FOLDER_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    spool.Spool("r1").append(run_record("r1"))
    assert list(tmp_path.iterdir()) == []


MOVER = """
import sys
from pathlib import Path
sys.path[:0] = [{root!r}]
from warpbench import spool
sys.stdin.readline()
for folder in sorted(Path(sys.argv[1]).iterdir()):
    spool.move(folder, Path(sys.argv[2]), commit="{commit}", environment="env")
"""


def test_processes_that_move_their_runs_at_once_lose_none(tmp_path, target):
    movers, names = [], []
    for mover in range(4):
        for count in range(15):
            folder = tmp_path / f"mover{mover}" / f"{count:02}"
            folder.mkdir(parents=True)
            names.append(f"run-{mover}-{count}")
            (folder / f"{names[-1]}.jsonl").write_text(to_line(run_record(names[-1])) + "\n")
        code = MOVER.format(root=str(Path(spool.__file__).parents[1]), commit=COMMIT)
        command = [sys.executable, "-c", code, str(tmp_path / f"mover{mover}"), str(target)]
        movers.append(subprocess.Popen(command, stdin=subprocess.PIPE))
    for mover in movers:  # all are started: now
        mover.stdin.close()
    assert [mover.wait() for mover in movers] == [0] * 4
    assert sorted(line["run"] for line in lines(target)) == sorted(names)
    assert [path.name for path in target.parent.iterdir()] == [target.name]
