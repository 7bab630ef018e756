"""`warpwatch forge plan-gate`: the first job of a gate's workflow, which decides what is measured."""

import os
from dataclasses import replace
from pathlib import Path

import click

from ..code.code_comparison import CodeComparison
from ..code.compiled_facts import CodeFileError, read_model
from ..forges.pull_request_address import workflow_run_url
from ..forges.retries import ForgeError
from .events import Event, asked
from .gate_plan import Plan, State, in_progress, plan
from .repository import Repository

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("plan-gate")
@click.option(
    "--ignore",
    "patterns",
    default="",
    metavar="PATTERNS",
    help="Paths that no measurement depends on, as *.md; one a line or separated by spaces.",
)
@click.option("--code", "code_file", type=_FILE, help="What the build's `warpwatch compare --code` wrote, if it did.")
@click.option(
    "--output",
    type=_FILE,
    envvar="GITHUB_OUTPUT",
    required=True,
    help="Gets a line each of state, reason, pull, base and head; else GITHUB_OUTPUT.",
)
def plan_gate(patterns: str, code_file: Path | None, output: Path) -> None:
    """Decide which commit of which pull request is measured, or why none is.

    Reads the workflow's event and asks GitHub with GITHUB_TOKEN, which may read, and write checks: of a commit that is
    to be measured the check `warpwatch gate` is in progress from now on. The state is measure, skip (nothing that is
    measured changed, or a merge queue's commit), wait (a fork's commit needs a maintainer's word), failed (it does not
    build), cancelled, timed-out or stopped (its build), or empty: about no pull request.
    """
    try:
        repository = Repository.of_workflow()
        wanted = asked(Event.of_workflow(), repository)
        if wanted is None:
            _write(output, None)
            return
        changed = repository.changed(wanted.pull_request.base, wanted.pull_request.head)
        told = plan(wanted, changed, ignored=tuple(patterns.split()), code=_code(code_file))
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    _write(output, told)
    if told.state is State.MEASURE:
        _announce(repository, told)


def _announce(repository: Repository, told: Plan) -> None:
    """Sets the check to in progress; an error does not stop the measurement."""
    try:
        check = replace(in_progress(told.head, told.base), details_url=workflow_run_url())
        repository.thread(told.pull).put_check_run(check)
    except ForgeError as error:
        click.echo(f"the check cannot be shown as in progress: {error}", err=True)


def _code(path: Path | None) -> CodeComparison | None:
    """The comparison of compiled code; None if it is missing or invalid."""
    if path is None or not path.exists():
        return None
    try:
        return read_model(CodeComparison, path, made_by="warpwatch compare --code")
    except CodeFileError as error:
        click.echo(str(error), err=True)
        return None


def _write(output: Path, told: Plan | None) -> None:
    lines = {"state": "", "reason": "about no open pull request's newest commit", "pull": "", "base": "", "head": ""}
    if told is not None:
        lines = {
            "state": told.state.value,
            "reason": told.reason,
            "pull": str(told.pull),
            "base": told.base,
            "head": told.head,
        }
    with output.open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in lines.items())
    click.echo(f"{lines['state'] or 'nothing to do'}: {lines['reason']}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"**{lines['state'] or 'nothing to do'}**: {lines['reason']}\n")
