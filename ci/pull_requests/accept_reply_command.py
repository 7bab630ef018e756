"""`warpwatch forge accept-reply`: handles a maintainer's `/warpwatch accept …`, after which reports are renewed."""

from dataclasses import dataclass
from pathlib import Path

import click

from ..acceptance.grammar import SYNTAX, parse_acceptance
from ..forges.replies import commands
from ..forges.retries import ForgeError, with_retries
from .events import Event, NewComment, new_comment
from .gate_plan import NAME
from .repository import Repository, answering_failures, refuse


class NotAcceptedError(Exception):
    """The command is rejected; the message gives the reason to its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The pull request whose reports are renewed, and the workflow run with its artefacts."""

    pull: int
    head: str
    run: str


def accepted(comment: NewComment, repository: Repository) -> Accepted:
    """The accepted command. Raises NotAcceptedError, ForgeError."""
    if not with_retries(lambda: repository.thread(comment.pull).may_write(comment.author)):
        raise NotAcceptedError("only who may push to this repository can say that")
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
        raise NotAcceptedError(f"{pull.head} is not measured yet; say it once its report is here")
    return Accepted(pull=pull.number, head=pull.head, run=run)


@click.command("accept-reply")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="GITHUB_OUTPUT",
    required=True,
    help="Gets a line each of pull, head and run; else GITHUB_OUTPUT.",
)
def accept_reply(output: Path) -> None:
    """Take `/warpwatch accept …` in a new comment on a pull request.

    Verifies that who said it may push, that it can be understood, and that the newest commit was measured; tells which
    run of the workflow has the artefacts, for `report-gate --replies` and `conclude-gate` to read again. What is
    accepted they find out themselves, from all replies. Nothing of the pull request is looked at.
    """
    try:
        comment = new_comment(Event.of_workflow())
        if comment is None or not any(commands(comment.body)):
            click.echo("no `/warpwatch accept` on a pull request")
            return
        repository = Repository.of_workflow()
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    with answering_failures(repository, comment.id, f"@{comment.author}: not accepted", comment.pull):
        try:
            told = accepted(comment, repository)
        except NotAcceptedError as refused:
            refuse(repository, comment.pull, comment.id, f"@{comment.author}: not accepted; {refused}.")
            click.echo(f"not accepted from {comment.author}: {refused}")
            return
    with output.open("a", encoding="utf-8") as file:
        file.write(f"pull={told.pull}\nhead={told.head}\nrun={told.run}\n")
    click.echo(f"{told.head} of #{told.pull} is told anew from run {told.run}, on the word of {comment.author}")
    try:
        repository.react(comment.id, "+1")
    except ForgeError as error:  # what was asked for goes on
        click.echo(f"left undone: {error}", err=True)
