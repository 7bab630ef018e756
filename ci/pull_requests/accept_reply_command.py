"""`warpwatch forge accept-reply`: validates a maintainer's `/warpwatch accept …`, after which reports are renewed."""

from dataclasses import dataclass
from pathlib import Path

import click

from ..acceptance.grammar import SYNTAX, parse_acceptance
from ..forges.replies import commands
from ..forges.retries import ForgeError, with_retries
from .events import Event, NewComment, new_comment
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
