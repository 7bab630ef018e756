"""`warpwatch token`: API tokens of a project."""

import time
from datetime import UTC, datetime

import click

from ..store import queries
from ..store.tokens import Scope, Token, create_token, revoke_token, tokens
from ..text.tables import text_table
from .output import database_option
from .store_access import choose_project, open_or_create_store, open_store


@click.group()
def token() -> None:
    """Create, list and revoke API tokens, with which runners upload results and other programs read or triage."""


@token.command()
@click.option("--project", metavar="NAME", required=True, help="Project of the token; created if it is new.")
@click.option("--name", metavar="TEXT", required=True, help="Name of the token, such as the runner's.")
@click.option(
    "--for",
    "scope",
    type=click.Choice([str(scope) for scope in Scope]),
    default=Scope.UPLOAD.value,
    show_default=True,
    help="Upload results; read if reading needs a login; or read and triage.",
)
@click.option("--days", type=click.IntRange(1, 3650), help="Lifetime; by default until revoked.")
@database_option
def create(project: str, name: str, scope: str, days: int | None, database: str | None) -> None:
    """Create a token for one project and print it.

    It is shown only once; the store keeps a hash.
    """
    store = open_or_create_store(database)
    is_new = queries.project(store, project) is None
    now_ms = int(time.time() * 1000)
    ends_ms = now_ms + days * 86_400_000 if days is not None else None
    try:
        secret = create_token(store, project, name=name, scope=Scope(scope), now_ms=now_ms, ends_ms=ends_ms)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if is_new:
        click.echo(f"the project {project} is new", err=True)
    click.echo(secret)


@token.command("list")
@click.option("--project", metavar="NAME", help="Only this project's.")
@database_option
def list_(project: str | None, database: str | None) -> None:
    """List the tokens, without their secrets."""
    store = open_store(database)
    if project is not None:
        choose_project(store, project)
    found = tokens(store, project=project)
    if not found:
        click.echo("there is no token; try: warpwatch token create --project NAME --name RUNNER")
        return
    rows = [
        (str(one.id), one.project, one.name, one.scope.value, _day(one.created), _day(one.last_used), _state(one))
        for one in found
    ]
    header = ("id", "project", "name", "for", "made", "last used", "state")
    click.echo(text_table(header, rows, align="rllllll", width=160, shrink=2))


@token.command()
@click.argument("token_id", metavar="ID", type=int)
@database_option
def revoke(token_id: int, database: str | None) -> None:
    """Revoke a token.

    ID is as `warpwatch token list` prints it. The token stops working immediately, and cannot be restored.
    """
    if not revoke_token(open_store(database), token_id, now_ms=int(time.time() * 1000)):
        raise click.ClickException(f"no token {token_id} that still works; see: warpwatch token list")
    click.echo(f"token {token_id} is revoked")


def _state(one: Token) -> str:
    if one.ends is None:
        return "works"
    return f"works until {_day(one.ends)}" if one.works(datetime.now(UTC)) else f"ended {_day(one.ends)}"


def _day(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment else "never"
