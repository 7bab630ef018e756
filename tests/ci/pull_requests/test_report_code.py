"""The build's comparison as a comment: of the pull request that GitHub names, and as the schema has it."""

import json

import pytest
from click.testing import CliRunner

from warpwatch.ci.cli import main


@pytest.fixture
def pull(hub):
    """Pull request 7 from a fork: (base, head)."""
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch=None)
    hub.server.add_pull(7, head=head, base=base, source="eve/kernels")
    return base, head


def comparison(base, head, registers=64):
    fact = {"name": "registers", "unit": "", "before": 32, "after": registers}
    change = {
        "operator": "rope",
        "kernel": "rope_kernel",
        "architecture": "sm_75",
        "what": "changed",
        "facts": [fact],
        "instructions": [],
    }
    return {
        "schema": 1,
        "base": base,
        "head": head,
        "changes": [change],
        "unchanged": 3,
        "runs_same_code": {"sm_75": False},
    }


def report(hub, document, head):
    run = {
        "event": "pull_request",
        "conclusion": "failure",
        "head_sha": head,
        "head_branch": "topic",
        "head_repository": {"full_name": "eve/kernels", "owner": {"login": "eve"}},
    }
    hub.run_for("workflow_run", {"workflow_run": run})
    file = hub.folder / "code.json"
    file.write_text(json.dumps(document))
    return CliRunner().invoke(main, ["forge", "report-code", str(file)])


def test_the_comment_is_created_once_and_changed_in_place(hub, pull):
    for registers in (64, 96):
        done = report(hub, comparison(*pull, registers), pull[1])
        assert done.exit_code == 0, done.output
    [comment] = hub.server.comments.values()
    assert "### Compiled code: 1 changed (1 with more registers), 3 unchanged" in comment["body"]
    assert "32 → 96" in comment["body"]


@pytest.mark.parametrize(
    "change",
    [
        {"head": "c" * 40},  # of another commit
        {"changes": [{"kernel": "@everyone"}]},
        {"advertisement": "buy"},
    ],
)
def test_a_file_of_another_build_is_not_reported(change, hub, pull):
    done = report(hub, {**comparison(*pull), **change}, pull[1])
    assert done.exit_code == 2, done.output
    assert hub.server.comments == {}
    assert "everyone" not in done.output


def test_the_build_of_an_older_commit_is_not_reported(hub, pull):
    hub.server.pulls[7]["head"]["sha"] = "c" * 40
    assert report(hub, comparison(*pull), pull[1]).exit_code == 0
    assert hub.server.comments == {}
