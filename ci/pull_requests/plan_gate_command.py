"""`warpwatch forge plan-gate`: decides whether a pull request's commit is measured."""

import os
from dataclasses import replace
from pathlib import Path

import click

from ..code.code_comparison import CodeComparison
from ..code.compiled_facts import CodeFileError, read_model
from ..forges.pull_request_address import workflow_run_url
from ..forges.retries import ForgeError
from .events import Event, event_commit
from .gate_plan import GateState, Plan, in_progress, plan
from .repository import Repository

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("plan-gate")
@click.option(
    "--ignore",
    "patterns",
    default="",
    metavar="PATTERNS",
    help="Paths that no measurement depends on, such as *.md; separated by spaces or line ends.",
)
@click.option(
    "--code", "code_file", type=_FILE, help="Output of the build's `warpwatch compare --code`, if there is one."
)
@click.option(
    "--output",
    type=_FILE,
    envvar="GITHUB_OUTPUT",
    required=True,
    help="File to which state, reason, pull, base and head are appended; else GITHUB_OUTPUT.",
)
def plan_gate(patterns: str, code_file: Path | None, output: Path) -> None:
    """Decide whether the commit of the workflow's event is measured, and why not.

    Reads the event and GitHub with GITHUB_TOKEN, which needs to read, and to write checks: the check `warpwatch gate`
    of a commit to be measured is set to in progress. The state is measure, skip (measured code is unchanged, or a merge
    queue's commit), wait (a fork's commit needs approval), failed (it does not build), cancelled, timed-out or stopped
    (its build), or empty (no pull request).
    """
    try:
        repository = Repository.of_workflow()
        commit = event_commit(Event.of_workflow(), repository)
        if commit is None:
            _write(output, None)
            return
        changed = repository.changed(commit.pull_request.base, commit.pull_request.head)
        decision = plan(commit, changed, ignored=tuple(patterns.split()), code=_code(code_file))
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    _write(output, decision)
    if decision.state is GateState.MEASURE:
        _announce(repository, decision)


def _announce(repository: Repository, decision: Plan) -> None:
    """Sets the check to in progress; an error does not stop the measurement."""
    try:
        check = replace(in_progress(decision.head, decision.base), details_url=workflow_run_url())
        repository.thread(decision.pull).put_check_run(check)
    except ForgeError as error:
        click.echo(f"the check cannot be set to in progress: {error}", err=True)


def _code(path: Path | None) -> CodeComparison | None:
    """The comparison of compiled code; None if it is missing or invalid."""
    if path is None or not path.exists():
        return None
    try:
        return read_model(CodeComparison, path, made_by="warpwatch compare --code")
    except CodeFileError as error:
        click.echo(str(error), err=True)
        return None


def _write(output: Path, decision: Plan | None) -> None:
    lines = {"state": "", "reason": "not the newest commit of an open pull request", "pull": "", "base": "", "head": ""}
    if decision is not None:
        lines = {
            "state": decision.state.value,
            "reason": decision.reason,
            "pull": str(decision.pull),
            "base": decision.base,
            "head": decision.head,
        }
    with output.open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in lines.items())
    click.echo(f"{lines['state'] or 'nothing to do'}: {lines['reason']}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"**{lines['state'] or 'nothing to do'}**: {lines['reason']}\n")
