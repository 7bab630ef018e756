"""The rules hold for every workflow here, and each reports a workflow that breaks it."""

import re

import pytest

from . import rules
from .workflow_files import ACTIONS, FOLDER, names, parse, read

_CHECKOUT = """
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
"""


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_a_workflow_keeps_the_rules(rule, name):
    assert list(rule(read(FOLDER / name))) == []


@pytest.mark.parametrize(
    ("rule", "name", "before", "after"),
    [
        (rules.actions_are_pinned, "build.yml", r"checkout@[0-9a-f]{40} # v7.0.1", "checkout@v7"),
        (rules.actions_are_pinned, "perf.yml", r"uses: \$/(\S+)", r"uses: ada/warpwatch/\1@main"),
        (rules.rights_are_given_by_job, "build.yml", r"\npermissions: \{\}", "\npermissions: write-all"),
        (rules.rights_are_given_by_job, "build.yml", r"    permissions:\n      contents: read\n", ""),
        (rules.jobs_end, "accept.yml", r"    timeout-minutes: 30[^\n]*\n", ""),
        (
            rules.gpu_jobs_hold_nothing,
            "gate.yml",
            r"permissions:\n      contents: read\n    steps",
            "permissions:\n      contents: read\n      checks: write\n    steps",
        ),
        (
            rules.gpu_jobs_hold_nothing,
            "measure.yml",
            r"BENCH: \$\{\{ inputs.bench \}\}",
            "BENCH: ${{ secrets.WARPWATCH_TOKEN }}",
        ),
        (rules.gpu_jobs_hold_nothing, "gate.yml", r"BUDGET: \$\{\{ inputs.budget \}\}", "BUDGET: ${{ github.token }}"),
        (rules.gpu_jobs_hold_nothing, "gate.yml", r"\ncache-mode: none", "\ncache-mode: write"),
        (rules.gpu_jobs_hold_nothing, "gate.yml", r"(\n      - uses: actions/upload-artifact@\S+)", r"\1\1"),
        (rules.gpus_are_used_one_at_a_time, "gate.yml", "cancel-in-progress: false", "cancel-in-progress: true"),
        (rules.gpus_are_used_one_at_a_time, "measure.yml", "      queue: max\n", ""),
        (rules.gpus_are_used_one_at_a_time, "measure.yml", r"group: warpwatch-", "group: perf-"),
        (rules.jobs_with_write_permission_check_nothing_out, "accept.yml", r"    steps:\n", f"    steps:{_CHECKOUT}"),
        (
            rules.jobs_with_write_permission_check_nothing_out,
            "ok-to-test.yml",
            "run: warpwatch",
            "run: git fetch && warpwatch",
        ),
        (rules.jobs_with_write_permission_check_nothing_out, "ok-to-test.yml", "ubuntu-24.04", "self-hosted"),
        (rules.strangers_start_nothing_trusted, "build.yml", r"\n  pull_request:", "\n  pull_request_target:"),
        (rules.strangers_start_nothing_trusted, "perf-pr.yml", r"\non:", "\non:\n  pull_request:"),
        (rules.strangers_start_nothing_trusted, "build.yml", "ubuntu-24.04", "[self-hosted, gpu-t4]"),
        (rules.strangers_start_nothing_trusted, "build.yml", "contents: read", "contents: write"),
        (rules.strangers_start_nothing_trusted, "ok-to-test.yml", r"\ncache-mode: none", ""),
        (rules.scripts_are_constant, "accept.yml", "run: warpwatch", "run: echo ${{ github.head_ref }}; warpwatch"),
        (rules.checkouts_forget_their_token, "gate.yml", "persist-credentials: false", "persist-credentials: true"),
        (rules.checkouts_forget_their_token, "build.yml", r"          persist-credentials: false\n", ""),
    ],
)
def test_a_broken_rule_is_reported(rule, name, before, after):
    text = (FOLDER / name).read_text()
    broken, count = re.subn(before, after, text, count=1)
    assert count == 1, "the workflow has nothing to break there"
    assert list(rule(parse(text))) == []
    assert list(rule(parse(broken))) != []


def test_every_pin_has_a_version_and_each_action_one_pin():
    pins = {}
    for path in [*FOLDER.glob("*.yml"), *ACTIONS.rglob("action.yml")]:
        for line in path.read_text().splitlines():
            if found := re.search(r"uses: ([\w.-]+/[\w.-]+)(?:/[\w./-]+)?@(.*)", line):
                assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", found[2]), f"{path.name}: {line.strip()}"
                pins.setdefault(found[1], set()).add(found[2])
    assert {action for action, versions in pins.items() if len(versions) > 1} == set()
    assert {action.split("/")[0] for action in pins} == {"actions"}, "another owner's action is another one to trust"


def test_our_own_action_runs_constant_scripts():
    for path in ACTIONS.rglob("action.yml"):
        for step in read(path)["runs"]["steps"]:
            assert "${{" not in step["run"], f"{path}: values come by the environment"


def test_names_of_this_repository_exist():
    root = FOLDER.parents[1]
    named = [used for path in FOLDER.glob("*.yml") for used in re.findall(r"uses: \$/(\S+)", path.read_text())]
    assert named
    for used in named:
        assert (root / used).is_file() or (root / used / "action.yml").is_file(), used
