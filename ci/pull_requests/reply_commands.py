"""`warpwatch forge accept-reply` and `ok-to-test`: maintainers' commands in new comments on pull requests."""

import re
from collections.abc import Callable
from pathlib import Path

import click

from ..acceptance import SYNTAX, parse_acceptance
from ..forges.forge_request import ForgeError, with_retries
from ..forges.replies import commands
from .events import APPROVED_BRANCH, Event, NewComment, new_comment
from .gate_plan import NAME
from .repository import PullRequest, Repository

_OK_TO_TEST = re.compile(r"\s*/ok to test\b(?P<commit>[^\n]*)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class CommandRefusedError(Exception):
    """The command is refused; the message gives the reason to its author."""


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

    def accept(comment: NewComment, repository: Repository) -> str:
        pull = _open_pull_request(comment, repository, "accept")
        for line in commands(comment.body):
            try:
                parse_acceptance(line)
            except ValueError as error:
                raise CommandRefusedError(f"expected `/warpwatch accept {SYNTAX}`") from error
        run = repository.workflow_run(pull.head, NAME)
        if run is None:
            raise CommandRefusedError(f"{pull.head} is not measured yet; reply again after its report")
        with output.open("a", encoding="utf-8") as file:
            file.write(f"pull={pull.number}\nhead={pull.head}\nrun={run}\n")
        return f"{pull.head} of #{pull.number} is reported again from run {run}: accepted by {comment.author}"

    _handle("/warpwatch accept", lambda body: any(commands(body)), accept, refusal="not accepted")


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

    def approve(comment: NewComment, repository: Repository) -> str:
        pull = _open_pull_request(comment, repository, "approve")
        _verify_reviewed(comment, pull)
        repository.set_branch(APPROVED_BRANCH.format(number=pull.number), pull.head)
        # A push with GITHUB_TOKEN starts no workflow, so the default branch's workflow is started here.
        inputs = {"pull": str(pull.number), "sha": pull.head}
        repository.start(workflow, ref=repository.default_branch(), inputs=inputs)
        return f"{pull.head} of #{pull.number} is measured: approved by {comment.author}"

    _handle(
        "/ok to test",
        lambda body: _OK_TO_TEST.match(body) is not None,
        approve,
        refusal="not tested",
        clean_up=_delete_old_branches,
    )


def _handle(
    name: str,
    is_command: Callable[[str], bool],
    do: Callable[[NewComment, Repository], str],
    *,
    refusal: str,
    clean_up: Callable[[Repository], None] = lambda repository: None,
) -> None:
    """Carries out the command in the event's comment, and answers its author.

    `do` returns the line to print, or raises CommandRefusedError or ForgeError. After a ForgeError the job fails too.
    """
    try:
        comment = new_comment(Event.of_workflow())
        if comment is None or not is_command(comment.body):
            click.echo(f"no `{name}` on a pull request")
            return
        repository = Repository.of_workflow()
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    try:
        try:
            done = do(comment, repository)
        except CommandRefusedError as refused:
            _refuse(repository, comment, f"{refusal}; {refused}.")
            click.echo(f"{refusal}, {comment.author}: {refused}")
            return
    except ForgeError as error:
        try:
            _refuse(repository, comment, f"{refusal}; {error}. Try again later, in a new comment.")
        except ForgeError as unanswered:
            click.echo(f"the comment could not be answered: {unanswered}", err=True)
        raise click.ClickException(str(error)) from error
    click.echo(done)
    try:
        repository.react(comment.id, "+1")
        clean_up(repository)
    except ForgeError as error:  # the command itself succeeded
        click.echo(f"the comment has no reaction, or old branches are left: {error}", err=True)


def _refuse(repository: Repository, comment: NewComment, text: str) -> None:
    """Answers a command with a reaction and, once, with a comment. Raises ForgeError."""
    try:
        repository.answer(comment.pull, comment.id, f"@{comment.author}: {text}")
    finally:
        repository.react(comment.id, "-1")


def _open_pull_request(comment: NewComment, repository: Repository, verb: str) -> PullRequest:
    """The comment's pull request. Raises CommandRefusedError unless it is open and the author has write access."""
    if not with_retries(lambda: repository.thread(comment.pull).may_write(comment.author)):
        raise CommandRefusedError(f"only users with write access can {verb}")
    pull = repository.pull_request(comment.pull)
    if not pull.is_open:
        raise CommandRefusedError("this pull request is not open")
    return pull


def _verify_reviewed(comment: NewComment, pull: PullRequest) -> None:
    """Raises CommandRefusedError unless the comment has the full hash of the newest commit, which was reviewed."""
    match = _OK_TO_TEST.match(comment.body)
    commit = match["commit"].strip() if match else ""
    if not _COMMIT.fullmatch(commit):
        raise CommandRefusedError(f"give the full hash of the commit that you reviewed: `/ok to test {pull.head}`")
    if pull.head != commit:
        raise CommandRefusedError(
            f"{commit} is not the newest commit of this pull request. If you reviewed that one: "
            f"`/ok to test {pull.head}`"
        )


def _delete_old_branches(repository: Repository) -> None:
    """Deletes the approved branches of pull requests that are closed. Raises ForgeError."""
    for name in repository.branches(APPROVED_BRANCH.format(number="")):
        number = name.removeprefix(APPROVED_BRANCH.format(number=""))
        if number.isdecimal() and not repository.pull_request(int(number)).is_open:
            repository.delete_branch(name)
