"""`warpwatch token`: who may add results to a project over HTTP."""

import time
from datetime import datetime

import click

from warpwatch.dashboard.commands import choose_project
from warpwatch.dashboard.opening import open_store
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.tokens import Scope, create_token, revoke_token, tokens
from warpwatch.dashboard.text_table import text_table

_database = click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; WARPWATCH_DATABASE.")


@click.group()
def token() -> None:
    """Make, list and revoke the tokens with which runners upload results."""


@token.command()
@click.option("--project", metavar="NAME", required=True, help="The one project it is for; made if it is new.")
@click.option("--name", metavar="TEXT", required=True, help="What uses it, such as the runner's name.")
@_database
def create(project: str, name: str, database: str | None) -> None:
    """Make a token for uploads to a project, and print it: it is shown this once, and only a hash of it is kept."""
    store = open_store(database)
    is_new = queries.project(store, project) is None
    try:
        secret = create_token(store, project, name=name, scope=Scope.UPLOAD, now_ms=int(time.time() * 1000))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if is_new:
        click.echo(f"the project {project} is new", err=True)
    click.echo(secret)


@token.command("list")
@click.option("--project", metavar="NAME", help="Only this project's.")
@_database
def list_(project: str | None, database: str | None) -> None:
    """List the tokens: what they are for, when they were made and last used. The tokens themselves are nowhere."""
    store = open_store(database)
    if project is not None:
        choose_project(store, project)
    found = tokens(store, project=project)
    if not found:
        click.echo("there is no token; try: warpwatch token create --project NAME --name RUNNER")
        return
    rows = [
        (str(one.id), one.project, one.name, one.scope.value, _day(one.created), _day(one.last_used),
         f"revoked {_day(one.revoked)}" if one.revoked else "works")
        for one in found
    ]  # fmt: skip
    header = ("id", "project", "name", "for", "made", "last used", "state")
    click.echo(text_table(header, rows, align="rllllll", width=160, shrink=2))


@token.command()
@click.argument("token_id", metavar="ID", type=int)
@_database
def revoke(token_id: int, database: str | None) -> None:
    """End the token with this id (see `warpwatch token list`), at once and for good."""
    if not revoke_token(open_store(database), token_id, now_ms=int(time.time() * 1000)):
        raise click.ClickException(f"no token {token_id} that still works; see: warpwatch token list")
    click.echo(f"token {token_id} is revoked")


def _day(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment else "never"
