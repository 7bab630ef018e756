"""The lines that ci/README.md shows another repository fit the workflows that they call."""

import re
import subprocess

import pytest

from .test_linters import actionlint, schema
from .workflow_files import FOLDER, ROOT, parse, read, triggers

_BLOCKS = re.findall(r"```yaml\n# (\.github/workflows/(\S+))\n(.*?)```", (ROOT / "ci/README.md").read_text(), re.DOTALL)
EXAMPLES = {name: text for _, name, text in _BLOCKS}
_RIGHTS = {"": 0, "read": 1, "write": 2}


def called(text):
    """The one job, and the workflow of ours that it calls."""
    [job] = parse(text)["jobs"].values()
    found = re.fullmatch(r"OWNER/warpwatch/\.github/workflows/([\w-]+\.yml)@COMMIT", job["uses"])
    return job, read(FOLDER / found[1])


def test_there_is_an_example_of_each():
    assert EXAMPLES.keys() == {"perf.yml", "perf-pr.yml", "ok-to-test.yml", "accept.yml"}
    assert all(len(text.splitlines()) <= 10 for text in EXAMPLES.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_give_required_inputs_and_no_unknown_ones(name):
    job, workflow = called(EXAMPLES[name])
    assert "workflow_call" in triggers(workflow)
    wanted = workflow["on"]["workflow_call"]
    for kind, given in (("inputs", job.get("with", {})), ("secrets", job.get("secrets", {}))):
        declared = wanted.get(kind, {})
        assert given.keys() <= declared.keys()
        assert {key for key, each in declared.items() if each.get("required") == "true"} <= given.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_grant_exactly_the_needed_permissions(name):
    _, workflow = called(EXAMPLES[name])
    granted = parse(EXAMPLES[name])["permissions"]
    needed = {}
    for job in workflow["jobs"].values():
        for what, right in job["permissions"].items():
            needed[what] = max(needed.get(what, ""), right, key=_RIGHTS.__getitem__)
    assert granted == needed


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_workflow_that_strangers_start_hands_on_no_cache(name):
    workflow = parse(EXAMPLES[name])
    assert workflow.get("cache-mode") == "none" or not triggers(workflow) & {"workflow_run", "issue_comment"}


def test_the_linters_find_nothing_in_them(tmp_path):
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for name, text in EXAMPLES.items():
        (folder / name).write_text(text.replace("OWNER", "ada").replace("COMMIT", "0" * 40))
    actions = tmp_path / ".github/actions/none"
    actions.mkdir(parents=True)
    (actions / "action.yml").write_text("name: none\ndescription: none\nruns: {using: composite, steps: []}\n")
    for linter in (actionlint, schema):
        status, output = linter(tmp_path)
        assert status == 0, output


def test_manual_inputs_of_the_gate_equal_those_of_an_approval():
    ours = read(FOLDER / "perf-pr.yml")["on"]["workflow_dispatch"]["inputs"].keys()
    theirs = parse(EXAMPLES["perf-pr.yml"])["on"]["workflow_dispatch"]["inputs"].keys()
    assert ours == theirs == {"pull", "sha"}
