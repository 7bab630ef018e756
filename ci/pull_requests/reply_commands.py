"""`warpwatch forge accept-reply`: validates a maintainer's `/warpwatch accept …`, after which reports are renewed."""

import re
from dataclasses import dataclass
from pathlib import Path

import click

from ..acceptance import SYNTAX, parse_acceptance
from ..forges.replies import commands
from ..forges.retries import ForgeError, with_retries
from .events import APPROVED_BRANCH, Event, NewComment, new_comment
from .gate_plan import NAME
from .repository import Repository, refuse, report_failures


class NotAcceptedError(Exception):
    """The command is rejected; the message gives the reason to its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCommand:
    """The pull request whose reports are renewed, and the workflow run with its artefacts."""

    pull: int
    head: str
    run: str


def validate_command(comment: NewComment, repository: Repository) -> AcceptedCommand:
    """Validates the command in a comment. Raises NotAcceptedError, ForgeError."""
    if not with_retries(lambda: repository.thread(comment.pull).may_write(comment.author)):
        raise NotAcceptedError("only users with write access can accept")
    pull = repository.pull_request(comment.pull)
    if not pull.is_open:
        raise NotAcceptedError("this pull request is not open")
    for line in commands(comment.body):
        try:
            parse_acceptance(line)
        except ValueError as error:
            raise NotAcceptedError(f"expected `/warpwatch accept {SYNTAX}`") from error
    run = repository.workflow_run(pull.head, NAME)
    if run is None:
        raise NotAcceptedError(f"{pull.head} is not measured yet; reply again after its report")
    return AcceptedCommand(pull=pull.number, head=pull.head, run=run)


@click.command("accept-reply")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="GITHUB_OUTPUT",
    required=True,
    help="File to which pull, head and run are appended; else GITHUB_OUTPUT.",
)
def accept_reply(output: Path) -> None:
    """Handle `/warpwatch accept …` in a new comment on a pull request.

    Verifies that the author has write access, that the command is valid, and that the newest commit was measured.
    Outputs the workflow run with the artefacts, which `report-gate --replies` and `conclude-gate` read again, together
    with all replies. Runs no code of the pull request.
    """
    try:
        comment = new_comment(Event.of_workflow())
        if comment is None or not any(commands(comment.body)):
            click.echo("no `/warpwatch accept` on a pull request")
            return
        repository = Repository.of_workflow()
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    with report_failures(repository, comment.id, f"@{comment.author}: not accepted", comment.pull):
        try:
            command = validate_command(comment, repository)
        except NotAcceptedError as refused:
            refuse(repository, comment.pull, comment.id, f"@{comment.author}: not accepted; {refused}.")
            click.echo(f"not accepted from {comment.author}: {refused}")
            return
    with output.open("a", encoding="utf-8") as file:
        file.write(f"pull={command.pull}\nhead={command.head}\nrun={command.run}\n")
    click.echo(
        f"{command.head} of #{command.pull} is reported again from run {command.run}: accepted by {comment.author}"
    )
    try:
        repository.react(comment.id, "+1")
    except ForgeError as error:  # the command itself succeeded
        click.echo(f"no reaction added: {error}", err=True)


_COMMAND = re.compile(r"\s*/ok to test\b(?P<commit>[^\n]*)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class NotGrantedError(Exception):
    """The approval is rejected; the message gives the reason to its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A comment on a pull request with `/ok to test`."""

    comment: int
    author: str
    pull: int
    commit: str  # as in the comment, perhaps not a hash


def approval_in(event: Event) -> Approval | None:
    """The approval in a new comment; None for other comments."""
    comment = new_comment(event)
    match = _COMMAND.match(comment.body) if comment is not None else None
    if comment is None or match is None:
        return None
    return Approval(comment=comment.id, author=comment.author, pull=comment.pull, commit=match["commit"].strip())


def grant(approval: Approval, repository: Repository) -> str:
    """Copies the approved commit to its branch and returns it. Raises NotGrantedError, ForgeError.

    Requires the full hash of the newest commit, so that no other commit than the reviewed one is approved.
    """
    if not with_retries(lambda: repository.thread(approval.pull).may_write(approval.author)):
        raise NotGrantedError("only users with write access can approve")
    pull = repository.pull_request(approval.pull)
    if not pull.is_open:
        raise NotGrantedError("this pull request is not open")
    if not _COMMIT.fullmatch(approval.commit):
        raise NotGrantedError(f"give the full hash of the commit that you reviewed: `/ok to test {pull.head}`")
    if pull.head != approval.commit:
        raise NotGrantedError(
            f"{approval.commit} is not the newest commit of this pull request. If you reviewed that one: "
            f"`/ok to test {pull.head}`"
        )
    repository.set_branch(APPROVED_BRANCH.format(number=approval.pull), approval.commit)
    return approval.commit


@click.command("ok-to-test")
@click.option(
    "--start",
    "workflow",
    metavar="FILE",
    required=True,
    help="The measuring workflow, started on the default branch with the inputs pull and sha.",
)
def ok_to_test(workflow: str) -> None:
    """Handle a maintainer's `/ok to test HASH` on a fork's pull request.

    Verifies that the author has write access and that HASH is the full hash of the newest commit, copies the commit to
    the branch pull-request/NUMBER, and starts the measuring workflow. Checks out and runs no code of the fork.
    """
    try:
        approval = approval_in(Event.of_workflow())
        if approval is None:
            click.echo("no `/ok to test` on a pull request")
            return
        repository = Repository.of_workflow()
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    with report_failures(repository, approval.comment, f"@{approval.author}: not tested", approval.pull):
        try:
            commit = grant(approval, repository)
        except NotGrantedError as refused:
            refuse(repository, approval.pull, approval.comment, f"@{approval.author}: not tested; {refused}.")
            click.echo(f"not granted to {approval.author}: {refused}")
            return
        # A push with GITHUB_TOKEN starts no workflow, so the default branch's workflow is started here.
        inputs = {"pull": str(approval.pull), "sha": commit}
        repository.start(workflow, ref=repository.default_branch(), inputs=inputs)
    click.echo(f"{commit} of #{approval.pull} is measured: approved by {approval.author}")
    try:
        repository.react(approval.comment, "+1")
        delete_old_branches(repository)
    except ForgeError as error:  # the approval itself succeeded
        click.echo(f"no reaction added, or old branches not deleted: {error}", err=True)


def delete_old_branches(repository: Repository) -> None:
    """Deletes the approved branches of pull requests that are closed. Raises ForgeError."""
    for name in repository.branches(APPROVED_BRANCH.format(number="")):
        number = name.removeprefix(APPROVED_BRANCH.format(number=""))
        if number.isdecimal() and not repository.pull_request(int(number)).is_open:
            repository.delete_branch(name)
