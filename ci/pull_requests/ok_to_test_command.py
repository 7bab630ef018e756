"""`warpwatch forge ok-to-test`: copies a fork's commit to a branch and measures it, after a maintainer's approval."""

import re
from dataclasses import dataclass

import click

from ..forges.retries import ForgeError, with_retries
from .events import APPROVED_BRANCH, Event, new_comment
from .repository import Repository, answering_failures, refuse

_SAID = re.compile(r"\s*/ok to test\b(?P<commit>[^\n]*)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class NotGrantedError(Exception):
    """The approval is rejected; the message gives the reason to its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A comment on a pull request."""

    comment: int
    author: str
    pull: int
    commit: str  # as it was said, perhaps no commit at all


def word_of(event: Event) -> Word | None:
    """The approval in a new comment; None for other comments."""
    comment = new_comment(event)
    said = _SAID.match(comment.body) if comment is not None else None
    if comment is None or said is None:
        return None
    return Word(comment=comment.id, author=comment.author, pull=comment.pull, commit=said["commit"].strip())


def grant(word: Word, repository: Repository) -> str:
    """Copies the commit to its branch and returns it. Raises NotGrantedError, ForgeError.

    Only the commit that was looked at counts: by its full hash, and only while it is the newest.
    """
    if not with_retries(lambda: repository.thread(word.pull).may_write(word.author)):
        raise NotGrantedError("only who may push to this repository can say that")
    pull = repository.pull_request(word.pull)
    if not pull.is_open:
        raise NotGrantedError("this pull request is not open")
    if not _COMMIT.fullmatch(word.commit):
        raise NotGrantedError(
            f"say which commit, by its full hash. If you have looked at it: `/ok to test {pull.head}`"
        )
    if pull.head != word.commit:
        raise NotGrantedError(
            f"{word.commit} is not the newest commit of this pull request. If you have looked at that one: "
            f"`/ok to test {pull.head}`"
        )
    repository.set_branch(APPROVED_BRANCH.format(number=word.pull), word.commit)
    return word.commit


@click.command("ok-to-test")
@click.option(
    "--start",
    "workflow",
    metavar="FILE",
    required=True,
    help="The workflow that measures, started on the default branch with inputs pull and sha.",
)
def ok_to_test(workflow: str) -> None:
    """Take a maintainer's `/ok to test HASH` on a fork's pull request.

    Verifies that who said it may push and that HASH is the newest commit in full, copies the commit to the branch
    pull-request/NUMBER without looking into it, and starts the workflow that measures. Nothing of the fork is checked
    out or run here.
    """
    try:
        word = word_of(Event.of_workflow())
        if word is None:
            click.echo("no `/ok to test` on a pull request")
            return
        repository = Repository.of_workflow()
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    with answering_failures(repository, word.comment, f"@{word.author}: not tested", word.pull):
        try:
            commit = grant(word, repository)
        except NotGrantedError as refused:
            refuse(repository, word.pull, word.comment, f"@{word.author}: not tested; {refused}.")
            click.echo(f"not granted to {word.author}: {refused}")
            return
        # A branch made with GITHUB_TOKEN starts nothing by itself, so the default branch's own workflow is what runs.
        inputs = {"pull": str(word.pull), "sha": commit}
        repository.start(workflow, ref=repository.default_branch(), inputs=inputs)
    click.echo(f"{commit} of #{word.pull} is measured, on the word of {word.author}")
    try:
        repository.react(word.comment, "+1")
        delete_old_branches(repository)
    except ForgeError as error:  # what was asked for is done
        click.echo(f"left undone: {error}", err=True)


def delete_old_branches(repository: Repository) -> None:
    """Deletes the approved branches of pull requests that are closed. Raises ForgeError."""
    for name in repository.branches(APPROVED_BRANCH.format(number="")):
        number = name.removeprefix(APPROVED_BRANCH.format(number=""))
        if number.isdecimal() and not repository.pull_request(int(number)).is_open:
            repository.delete_branch(name)
