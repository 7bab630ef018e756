"""The steps that a hosted machine runs, on this one: real scripts, a real GitHub's answers, real files."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.reports.examples import artefact, row
from warpwatch.ci.gate.artefact import ArtefactCommit
from warpwatch.dashboard.model.verdict import Verdict

from .running import run_step
from .workflow_files import FOLDER, ROOT, steps
from .workflow_files import read as read_workflow

RESULTS = ROOT / "perf_suite/results"
BIN = Path(sys.executable).parent
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_ADA = {f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
WITH_COMMANDS = {"PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.fixture
def results(tmp_path):
    """One machine's recorded results, as download-artifact leaves them."""
    machine = min((path for path in RESULTS.iterdir() if (path / "machine.json").exists()), key=_size)
    folder = tmp_path / "found" / machine.name
    folder.mkdir(parents=True)
    shutil.copy2(machine / "machine.json", folder)
    smallest = min(machine.glob("*-*.json"), key=lambda path: path.stat().st_size)
    for path in machine.glob(f"{smallest.stem}*"):
        shutil.copy2(path, folder)
    shutil.copy2(RESULTS / "benchmarks.json", tmp_path / "found")
    return folder


def _size(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def read(tmp_path):
    return run_step(
        "measure.yml",
        "push",
        "Read every file as the dashboard will",
        folder=tmp_path,
        temporary=tmp_path,
        values={"inputs.project": "warpwatch"},
        environment=WITH_COMMANDS,
    )


def test_results_of_a_gpu_machine_are_validated_before_the_push(results, tmp_path):
    done = read(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "read.db").exists()


def test_a_file_that_the_dashboard_would_not_read_stops_the_push(results, tmp_path):
    (results / "0123abcd-environment.json").write_text('{"version": 2, "results": [')
    done = read(tmp_path)
    assert done.returncode != 0
    assert "0123abcd-environment.json" in done.stdout + done.stderr


def test_the_other_jobs_read_the_gates_plan(hub, tmp_path):
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"docs/index.md": "new\n"}, base, branch="topic")
    hub.server.add_pull(7, head=head, base=base)
    run = {
        "event": "pull_request",
        "conclusion": "success",
        "head_sha": head,
        "head_branch": "topic",
        "head_repository": {"full_name": "ada/kernels", "owner": {"login": "ada"}},
    }
    hub.run_for("workflow_run", {"workflow_run": run})
    done = run_step(
        "gate.yml",
        "plan",
        "Decide",
        folder=tmp_path,
        temporary=tmp_path,
        environment=WITH_COMMANDS,
        values={"github.token": hub.server.token, "inputs.ignore": "*.md *.rst docs/* LICENSE*"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert hub.output() == {
        "state": "skip",
        "reason": "only files without influence on measurements changed",
        "pull": "7",
        "base": base,
        "head": head,
    }


def test_an_approval_starts_the_callers_workflow(hub, tmp_path):
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch=None)
    hub.server.add_pull(7, head=head, base=base, source="eve/kernels")
    comment = {"id": 1, "body": f"/ok to test {head}", "user": {"login": "ada"}}
    hub.run_for("issue_comment", {"action": "created", "issue": {"number": 7, "pull_request": {}}, "comment": comment})
    done = run_step(
        "ok-to-test.yml",
        "copy",
        "Verify who said it and which commit, copy it, start the measurement",
        folder=tmp_path,
        temporary=tmp_path,
        environment=WITH_COMMANDS,
        values={"github.token": hub.server.token, "inputs.workflow || 'perf-pr.yml'": "gpu.yml"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert hub.server.branch("pull-request/7") == head
    assert len(hub.server.bodies("POST", "/actions/workflows/gpu.yml/dispatches")) == 1


def uploaded(tmp_path, label):
    """The one file that a machine's job uploads."""
    values = {"runner.temp": str(tmp_path), "matrix.gpu": label}
    return Path(re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], used("measure", "upload")["path"]))


def download(folder, artefacts, workflow="gate.yml", job="report"):
    """As download-artifact does it with a pattern: each artefact in a folder of its name, but one alone in none."""
    flat = used(job, "download", workflow).get("merge-multiple") == "true" or len(artefacts) == 1
    shutil.rmtree(folder, ignore_errors=True)
    for name, path in artefacts.items():
        target = folder if flat else folder / name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def used(job, action, workflow="gate.yml"):
    """What the job gives to the action upload-artifact or download-artifact."""
    its = steps(read_workflow(FOLDER / workflow)["jobs"][job])
    return next(each["with"] for each in its if f"{action}-artifact" in each.get("uses", ""))


def test_artefacts_of_several_machines_are_one_comment_and_the_required_check(hub, tmp_path):
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch="topic")
    hub.server.add_pull(7, head=head, base=base)
    left = {}
    for label, gpu in (("gpu-t4", "Tesla T4"), ("gpu-l4", "NVIDIA L4")):
        result = artefact(
            row(1, Verdict.UNCHANGED), base=ArtefactCommit(hash=base), head=ArtefactCommit(hash=head), gpu=gpu
        )
        left[f"gate-{label}"] = uploaded(tmp_path, label)
        left[f"gate-{label}"].write_text(result.model_dump_json())
    download(tmp_path / "found", left)
    report(hub, tmp_path, head, '["gpu-t4", "gpu-l4"]')
    assert {each["conclusion"] for each in hub.server.check_runs.values()} == {"success"}
    [comment] = hub.server.comments.values()
    assert "Tesla T4" in comment["body"]
    assert "NVIDIA L4" in comment["body"]


def report(hub, tmp_path, head, gpus):
    hub.run_for("workflow_run", {})
    values = {
        "github.token": hub.server.token,
        "inputs.dashboard": "https://perf.example.org",
        "inputs.gpus": gpus,
        "needs.plan.outputs.pull": "7",
        "needs.plan.outputs.head": head,
        "needs.plan.outputs.state": "measure",
        "needs.plan.outputs.reason": "measured code changed",
    }
    for title in ("Comment on the pull request", "Set the check that merging may require"):
        done = run_step(
            "gate.yml", "report", title, folder=tmp_path, temporary=tmp_path, values=values, environment=WITH_COMMANDS
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_artefact_of_one_machine_is_a_comment_and_two_checks(hub, tmp_path):
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch="topic")
    hub.server.add_pull(7, head=head, base=base)
    result = artefact(row(1, Verdict.UNCHANGED), base=ArtefactCommit(hash=base), head=ArtefactCommit(hash=head))
    left = uploaded(tmp_path, "gpu-t4")
    left.write_text(result.model_dump_json())
    download(tmp_path / "found", {"gate-gpu-t4": left})
    report(hub, tmp_path, head, '["gpu-t4"]')
    checks = {each["name"]: each["conclusion"] for each in hub.server.check_runs.values()}
    assert checks.pop("warpwatch gate") == "success"
    assert [(name.startswith("warpwatch gate ("), conclusion) for name, conclusion in checks.items()] == [
        (True, "success")
    ]
    [comment] = hub.server.comments.values()
    assert "### warpwatch: no change" in comment["body"]
    assert "### warpwatch: no change" in (tmp_path / "summary.md").read_text()


def test_an_acceptance_is_reported_from_the_measured_artefacts(hub, tmp_path, monkeypatch):
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch="topic")
    hub.server.add_pull(7, head=head, base=base)
    result = artefact(row(1, Verdict.REGRESSED), base=ArtefactCommit(hash=base), head=ArtefactCommit(hash=head))
    left = {f"gate-{label}": uploaded(tmp_path, label) for label in ("gpu-t4", "gpu-l4")}
    for path in left.values():
        path.write_text(result.model_dump_json())
    download(tmp_path / "found", left)
    hub.run_for("workflow_run", {})
    measured = {
        "github.token": hub.server.token,
        "inputs.dashboard": "",
        "inputs.gpus": '["gpu-t4", "gpu-l4"]',
        "needs.plan.outputs.pull": "7",
        "needs.plan.outputs.head": head,
        "needs.plan.outputs.state": "measure",
        "needs.plan.outputs.reason": "measured code changed",
    }
    titles = ("Comment on the pull request", "Set the check that merging may require")
    for title in titles:
        run_step(
            "gate.yml",
            "report",
            title,
            folder=tmp_path,
            temporary=tmp_path,
            values=measured,
            environment={**WITH_COMMANDS, "GITHUB_RUN_ID": "4711"},
        )
    word = {
        "id": 2,
        "body": "/warpwatch accept rope* known",
        "user": {"login": "ada"},
        "created_at": "2099-01-01T00:00:00Z",
    }
    hub.server.comments[2] = word
    hub.run_for("issue_comment", {"action": "created", "issue": {"number": 7, "pull_request": {}}, "comment": word})
    values = {
        "github.token": hub.server.token,
        "inputs.dashboard || vars.WARPWATCH_URL": "https://perf.example.org",
        "inputs.gpus || vars.WARPWATCH_GPUS || '[]'": '["gpu-t4", "gpu-l4"]',
        "steps.word.outputs.pull": "7",
        "steps.word.outputs.head": head,
        "steps.word.outputs.run": "4711",
    }
    download(tmp_path / "found", left, "accept.yml", "accept")
    for title in ("Verify who said it, and find what was measured", *titles):
        done = run_step(
            "accept.yml",
            "accept",
            title,
            folder=tmp_path,
            temporary=tmp_path,
            values=values,
            environment={**WITH_COMMANDS, "GITHUB_RUN_ID": "4712"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert hub.output() == {"pull": "7", "head": head, "run": "4711"}
    newest = {each["name"]: each for each in hub.server.check_runs.values()}
    assert {each["conclusion"] for each in newest.values()} == {"success"}
    assert newest["warpwatch gate"]["external_id"].startswith("4711:")


def test_a_commit_that_waits_gets_the_required_check_alone(hub, tmp_path):
    hub.run_for("workflow_run", {})
    values = {
        "github.token": hub.server.token,
        "inputs.dashboard": "",
        "inputs.gpus": '["gpu-t4"]',
        "needs.plan.outputs.pull": "7",
        "needs.plan.outputs.head": "b" * 40,
        "needs.plan.outputs.state": "wait",
        "needs.plan.outputs.reason": "it comes from a fork",
    }
    for title in ("Comment on the pull request", "Set the check that merging may require"):
        done = run_step(
            "gate.yml", "report", title, folder=tmp_path, temporary=tmp_path, values=values, environment=WITH_COMMANDS
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert [each["conclusion"] for each in hub.server.check_runs.values()] == ["action_required"]
    assert hub.server.comments == {}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no CUDA compiler here")
def test_the_build_compares_with_the_commit_it_left_main_at(hub, tmp_path):
    """A repository with one kernel, as GitHub checks it out: the base is built next to it, and nothing stays behind."""
    files = {
        "setup.py": "import sys\nfrom pathlib import Path\nsys.path.insert(0, 'kernels')\n"
        "from building import build_extension\n"
        "build_extension(Path.cwd(), Path('kernels/_C.abi3.so').resolve())\n",
        ".gitignore": "*.so\n*.json\nbuild\n__pycache__\n.venv\nperf_suite\n",
    }
    kernels = ROOT / "kernels"
    chosen = [
        "__init__.py",
        "extension.py",
        "building",
        "csrc/framework",
        "csrc/primitives",
        "csrc/vector_add",
    ]
    for name in chosen:
        paths = [kernels / name] if (kernels / name).is_file() else sorted((kernels / name).rglob("*.*"))
        sources = (path for path in paths if path.suffix in {".py", ".cu", ".cuh", ".cpp", ".h"})
        files |= {str(Path("kernels") / path.relative_to(kernels)): path.read_text() for path in sources}
    base = hub.commit(files)
    kernel = files["kernels/csrc/vector_add/vector_add.cu"]
    head = hub.commit({"kernels/csrc/vector_add/vector_add.cu": kernel.replace("(a + b,", "(a + b * a,")}, base)
    (hub.work / "perf_suite").symlink_to(ROOT / "perf_suite")
    (hub.work / ".venv").symlink_to(sys.prefix)
    environment = {**WITH_COMMANDS, "WARPWATCH_CUDA_ARCHS": "75", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    subprocess.run(
        [sys.executable, "setup.py"], cwd=hub.work, env={**os.environ, **environment}, check=True, capture_output=True
    )
    given = "github.event.pull_request.base.sha || github.event.before"
    done = run_step(
        "build.yml",
        "code",
        "Compile the base, and compare",
        folder=hub.work,
        temporary=tmp_path,
        values={given: base},
        environment=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((hub.work / "code.json").read_text())
    assert (result["base"], result["head"], result["runs_same_code"]) == (base, head, {"sm_75": False})
    assert [change["kernel"] for change in result["changes"]] == ["vector_add_elements", "vector_add_pieces"]
    assert "### Compiled code: 2 changed" in (tmp_path / "summary.md").read_text()
    assert hub.git("worktree", "list").count("\n") == 0


def test_a_plan_that_failed_is_concluded_for_the_commit_of_the_event(hub, tmp_path):
    head = "b" * 40
    hub.run_for("workflow_run", {"workflow_run": {"event": "pull_request", "head_sha": head}})
    outputs = {f"needs.plan.outputs.{name}": "" for name in ("pull", "head", "state", "reason")}
    values = {"github.token": hub.server.token, "inputs.gpus": '["gpu-t4"]', **outputs}
    done = run_step(
        "gate.yml",
        "report",
        "Set the check that merging may require",
        folder=tmp_path,
        temporary=tmp_path,
        values=values,
        environment=WITH_COMMANDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (check,) = hub.server.check_runs.values()
    assert (check["head_sha"], check["conclusion"]) == (head, "failure")


def test_a_gate_that_was_cancelled_ends_its_check(hub, tmp_path):
    hub.run_for("workflow_run", {"workflow_run": {"head_sha": "b" * 40}})
    values = {"github.token": hub.server.token, "inputs.gpus": '["gpu-t4"]', "needs.plan.outputs.head": "b" * 40}
    done = run_step(
        "gate.yml",
        "report",
        "Say that it was cancelled",
        folder=tmp_path,
        temporary=tmp_path,
        values=values,
        environment=WITH_COMMANDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (check,) = hub.server.check_runs.values()
    assert check["conclusion"] == "cancelled"


def test_the_report_runs_whatever_became_of_the_other_jobs():
    report_job = read_workflow(FOLDER / "gate.yml")["jobs"]["report"]
    assert "always()" in report_job["if"]
    assert "needs.plan.result != 'success'" in report_job["if"]


@pytest.mark.parametrize(("has_remote", "ends"), [(True, False), (True, True), (False, False)])
def test_a_job_that_waited_while_a_newer_commit_came_ends_early(has_remote, ends, tmp_path):
    """Before a remote that knows the pull request's head, and before none."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "work")], check=True)
    remote, made = tmp_path / "remote", "b" * 40
    if has_remote:
        subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
        made = subprocess.run(
            ["git", "commit-tree", "-m", "x", _EMPTY_TREE],
            cwd=remote,
            check=True,
            text=True,
            capture_output=True,
            env={**os.environ, **_ADA},
        ).stdout.strip()
        subprocess.run(["git", "update-ref", "refs/pull/7/head", made], cwd=remote, check=True)
    subprocess.run(["git", "remote", "add", "origin", str(remote)], cwd=tmp_path / "work", check=True)
    head = "c" * 40 if ends else made
    done = run_step(
        "gate.yml",
        "measure",
        "End early if a newer commit is there",
        folder=tmp_path / "work",
        temporary=tmp_path,
        values={"needs.plan.outputs.pull": "7", "needs.plan.outputs.head": head},
        environment={"GITHUB_ENV": str(tmp_path / "env")},
    )
    assert done.returncode == int(ends), done.stdout + done.stderr
    assert ("is not measured any more" in done.stdout) == ends


@pytest.mark.parametrize("workflow", ["gate.yml", "measure.yml"])
@pytest.mark.parametrize(
    ("capabilities", "architectures"),
    [("7.5", "75"), ("9.0", "90a"), ("12.0", "120"), ("8.9\n8.9", "89"), ("8.9\n7.5", "75;89"), (None, None)],
)
def test_a_gpus_machine_builds_for_its_own_gpu(workflow, capabilities, architectures, tmp_path):
    if capabilities is not None:
        program = tmp_path / "bin/nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' {' '.join(capabilities.split())}\n")
        program.chmod(0o755)
    environment = {"GITHUB_ENV": str(tmp_path / "env"), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    done = run_step(
        workflow,
        "measure",
        "Build for this machine's GPU alone",
        folder=tmp_path,
        temporary=tmp_path,
        values={"inputs.env": "A=1\nB=two words"},
        environment=environment,
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "env").read_text().splitlines()
    assert lines[-2:] == ["A=1", "B=two words"]
    assert lines[:-2] == ([f"WARPWATCH_CUDA_ARCHS={architectures}"] if architectures else [])


def test_a_commit_is_compared_by_the_workflows_warpwatch_and_built_by_its_own_python(tmp_path):
    measure = read_workflow(FOLDER / "gate.yml")["jobs"]["measure"]
    titles = [each.get("name") or each.get("uses") for each in steps(measure)]
    order = [
        "Set up",
        "Keep what was set up for asv alone",
        "$/.github/actions/warpwatch",
        "Measure base and head in turns",
    ]
    assert sorted(order, key=titles.index) == order  # what comes later comes first on PATH
    assert all("if" not in each for each in steps(measure) if each.get("uses", "").startswith("$/"))
    done = run_step(
        "gate.yml",
        "measure",
        "Keep what was set up for asv alone",
        folder=tmp_path,
        temporary=tmp_path,
        environment={**WITH_COMMANDS, "GITHUB_ENV": str(tmp_path / "env")},
    )
    assert done.returncode == 0
    assert (tmp_path / "env").read_text() == f"WARPWATCH_ASV_PYTHON={BIN}/python\n"


@pytest.mark.parametrize(("before", "count"), [("HEAD~3", 3), ("HEAD", 1), ("0" * 40, 1), ("", 1), ("HEAD~13", 10)])
def test_each_commit_of_a_push_is_measured(before, count, tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for _ in range(15):
        subprocess.run(
            ["git", "commit", "--quiet", "--allow-empty", "-m", "x"],
            cwd=tmp_path,
            check=True,
            env={**os.environ, **_ADA},
        )
    done = run_step(
        "measure.yml",
        "measure",
        "Count the commits of the push",
        folder=tmp_path,
        temporary=tmp_path,
        values={"github.event.before": before},
        environment={"GITHUB_ENV": str(tmp_path / "env")},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "env").read_text() == f"COMMITS={count}\nCONFIRM={'--confirm' if before else ''}\n"


def test_a_merge_queue_gets_the_required_checks():
    assert "merge_group" in read_workflow(FOLDER / "build.yml")["on"]
    [gate] = read_workflow(FOLDER / "perf-pr.yml")["jobs"].values()
    assert "github.event.workflow_run.event == 'merge_group'" in gate["if"]


@pytest.mark.parametrize(
    ("workflow", "title", "values", "calls"),
    [
        (
            "gate.yml",
            "Measure base and head in turns",
            {
                "needs.plan.outputs.base": "b" * 40,
                "needs.plan.outputs.head": "c" * 40,
                "inputs.folder": ".",
                "inputs.bench": "",
                "inputs.budget": "",
                "matrix.gpu": "gpu-t4",
                "strategy.job-total": "2",
            },
            ["set-up -m asv machine --yes", f"warpwatch gate {'b' * 40} {'c' * 40} --folder . --machines 2 --artefact"],
        ),
        (
            "measure.yml",
            "Measure",
            {"inputs.folder": ".", "inputs.bench": "rope"},
            [
                "python -m asv machine --yes",
                "warpwatch runner with-gpu-lock warpwatch runner measure --no-fetch --confirm --commits 3 --bench rope",
            ],
        ),
    ],
)
def test_the_measuring_step_gets_outputs_of_earlier_steps(workflow, title, values, calls, tmp_path):
    programs, called = tmp_path / "bin", tmp_path / "called"
    programs.mkdir()
    for name in ("warpwatch", "python", "set-up"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $@" >> {called}\n')
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "COMMITS": "3",
        "CONFIRM": "--confirm",
        "WARPWATCH_ASV_PYTHON": str(programs / "set-up"),
    }
    done = run_step(
        workflow, "measure", title, folder=tmp_path, temporary=tmp_path, values=values, environment=environment
    )
    assert done.returncode == 0, done.stderr
    lines = called.read_text().splitlines()
    assert [line.startswith(call) for line, call in zip(lines, calls, strict=True)] == [True, True], lines
