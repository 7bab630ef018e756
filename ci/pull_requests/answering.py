"""Answers to whoever gave a command in a comment: refused, or failed because GitHub did."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from warpwatch.ci.forges.retrying import ForgeError
from warpwatch.ci.pull_requests.repository import Repository


def refuse(repository: Repository, pull: int, comment: int, text: str) -> None:
    """Answers with a reaction and, once, in words. Raises ForgeError."""
    try:
        repository.answer(pull, comment, text)
    finally:
        repository.react(comment, "-1")


@contextmanager
def answering_failures(repository: Repository, comment: int, begins: str, pull: int) -> Iterator[None]:
    """Answers a comment whose command failed because GitHub did, as far as GitHub takes the answer.

    Raises click.ClickException, so that the job fails too.
    """
    try:
        yield
    except ForgeError as error:
        try:
            refuse(repository, pull, comment, f"{begins}; {error}. Say it again later, in a new comment.")
        except ForgeError as silent:
            click.echo(f"nor could that be answered: {silent}", err=True)
        raise click.ClickException(str(error)) from error
