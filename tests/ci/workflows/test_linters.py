"""The linters of GitHub's and GitLab's formats find nothing here, and do find what is wrong."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .workflow_files import ACTIONS, FOLDER, ROOT, parse

BIN = Path(sys.executable).parent
RECIPE = ROOT / "ci/recipes/gitlab-ci.yml"


def run(folder, program, *arguments):
    """Its output; with the linters' own environment, where actionlint finds shellcheck."""
    command = [str(BIN / program), *arguments]
    done = subprocess.run(
        command, cwd=folder, env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder)}, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def actionlint(folder):
    return run(
        folder,
        "actionlint",
        "-shellcheck",
        str(BIN / "shellcheck"),
        *map(str, sorted((folder / ".github/workflows").glob("*.yml"))),
    )


def zizmor(folder):
    return run(folder, "zizmor", "--offline", "--no-progress", ".github")


def schema(folder):
    workflows = run(
        folder,
        "check-jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        *map(str, (folder / ".github/workflows").glob("*.yml")),
    )
    actions = run(
        folder,
        "check-jsonschema",
        "--builtin-schema",
        "vendor.github-actions",
        *map(str, (folder / ".github/actions").rglob("action.yml")),
    )
    return max(workflows, actions)


@pytest.fixture
def copy(tmp_path):
    """Of .github, in a repository of its own."""
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize("linter", [actionlint, zizmor, schema], ids=lambda linter: linter.__name__)
def test_a_linter_finds_nothing(linter, copy):
    status, message = linter(copy)
    assert status == 0, message


@pytest.mark.parametrize(
    ("linter", "name", "before", "after", "message"),
    [
        (actionlint, "gate.yml", r"steps\.plan\.outputs\.base", "steps.plna.outputs.base", "plna"),
        (actionlint, "measure.yml", r"(?=warpwatch runner with-gpu-lock warpwatch)", "cd $FOLDER; ", "SC2086"),
        (actionlint, "perf.yml", r"      project: warpwatch\n", "", "project"),
        (
            zizmor,
            "accept.yml",
            r"run: warpwatch",
            "run: echo ${{ github.event.comment.body }}; warpwatch",
            "template-injection",
        ),
        (zizmor, "build.yml", r"checkout@[0-9a-f]{40} # v7.0.1", "checkout@v7", "unpinned-uses"),
        (zizmor, "build.yml", r"\n  pull_request:", "\n  pull_request_target:", "dangerous-triggers"),
        (schema, "gate.yml", r"    timeout-minutes: 180", "    timeout-minutes: soon", "timeout-minutes"),
    ],
)
def test_a_linter_finds_planted_errors(linter, name, before, after, message, copy):
    path = copy / ".github/workflows" / name
    text, count = re.subn(before, after, path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    status, output = linter(copy)
    assert status != 0
    assert message in output


def test_gitlabs_recipe_is_one_that_gitlab_reads(tmp_path):
    arguments = ("check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    status, message = run(tmp_path, *arguments, str(RECIPE))
    assert status == 0, message
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(RECIPE.read_text().replace("  stage: measure\n", "  stages: measure\n"))
    assert wrong.read_text() != RECIPE.read_text()
    assert run(tmp_path, *arguments, str(wrong))[0] != 0


def test_the_scripts_of_gitlabs_recipe_are_sound(tmp_path):
    text = RECIPE.read_text().replace("!reference ", "")
    scripts = [
        each for each in parse(text).values() if isinstance(each, dict) and {"script", "before_script"} & each.keys()
    ]
    assert len(scripts) == 5
    for number, job in enumerate(scripts):
        script = tmp_path / f"{number}.sh"
        script.write_text("\n".join(["#!/bin/bash", *job.get("before_script", []), *job.get("script", [])]) + "\n")
        status, message = run(tmp_path, "shellcheck", str(script))
        assert status == 0, message


def test_every_file_of_github_is_linted():
    workflows = {path for path in FOLDER.iterdir() if path.suffix == ".yml"}
    actions = set(ACTIONS.rglob("action.yml"))
    found = {path for path in (ROOT / ".github").rglob("*") if path.is_file()}
    assert found == workflows | actions | {ACTIONS / "warpwatch/locked.txt"}  # which test_locked.py reads
