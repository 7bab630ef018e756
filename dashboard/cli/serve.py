"""`warpwatch serve`: the dashboard on this machine."""

import errno
import logging
import socket
import webbrowser
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Timer

import click
from flask import Flask, url_for
from waitress.server import BaseWSGIServer

from ..settings import AccessSettings, Settings
from ..store import StoreError
from ..web.app import create_app
from ..web.auth.identity import has_local_login, local_link_token
from ..web.server import allow_more_files, make_server

DEFAULT_PORT = 8321
DEFAULT_THREADS = 3  # two long requests leave one thread for others
_PORTS_TO_TRY = 20


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0: any free one. If the default is in use, the next free one.",
)
@click.option("--database", help="SQLAlchemy URL or path; else WARPWATCH_DATABASE, else .warpwatch/warpwatch.db.")
@click.option(
    "--threads",
    default=DEFAULT_THREADS,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Requests served at once; more threads slow each other down.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def serve(host: str, port: int, database: str | None, threads: int, opens: bool) -> None:
    """Serve the dashboard until Ctrl+C."""
    run_dashboard(host, port, database=database, threads=threads, opens=opens)


def run_dashboard(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    database: str | None = None,
    threads: int = DEFAULT_THREADS,
    opens: bool = False,
    while_serving: Callable[[Flask, str], AbstractContextManager[None]] = lambda app, address: nullcontext(),
) -> None:
    """Serve the dashboard until Ctrl+C.

    `while_serving` gets the application and its URL; its context ends before the store is closed. Raises ClickException
    if the port is in use, the database cannot be opened or a setting is invalid.
    """
    allow_more_files()
    try:
        settings = Settings.from_env()
        settings = replace(settings, database=database) if database else settings
        app = create_app(replace(settings, access=replace(settings.access, served_on=host)))
        listener = _listen(host, port)
    except (StoreError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    # Browsers cannot open "all addresses"; an IPv6 address needs brackets.
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    server = server_of(app, listener, threads=threads)
    click.echo(f"warpwatch serves on {address}  (Ctrl+C ends it)")
    link = login_link(app, address)
    click.echo(
        f"Anonymous read access. To write, open {link} (valid once)."
        if link is not None
        else _access_summary(settings.access)
    )
    if opens:
        Timer(0.5, webbrowser.open, (link or address,)).start()
    try:
        with while_serving(app, address):
            server.run()
    finally:
        server.close()
        app.extensions["store"].close()


def login_link(app: Flask, address: str) -> str | None:
    """A one-time login link of the local user; None without local login."""
    with app.test_request_context(base_url=address):
        if not has_local_login():
            return None
        return url_for("login.local", token=local_link_token(), _external=True)


def _access_summary(access: AccessSettings) -> str:
    """Read and write access in one sentence, without a local login."""
    if access.reading_requires_login:
        return "Reading needs a login; writing needs a login with a role."
    if access.login is not None:
        return "Anonymous read access. Writing needs a login with a role."
    return "Anonymous read access. Writing needs an API token; set WARPWATCH_LOGIN to enable user accounts."


def server_of(app: Flask, listener: socket.socket, *, threads: int) -> BaseWSGIServer:
    """A server of the application on the listening socket."""
    # Suppress one line per request that waits for a thread.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    # Beyond twice the limit waitress closes the connection; up to it the application answers with a message.
    return make_server(app, listener, threads=threads, most_body_bytes=2 * app.config["MAX_CONTENT_LENGTH"])


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. If the default port is in use, the next free one; a chosen port or an error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    candidates = range(port, port + _PORTS_TO_TRY) if port == DEFAULT_PORT else (port,)
    for candidate in candidates:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen()  # two sockets may bind with SO_REUSEADDR; only one of them listens
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise click.ClickException(f"cannot listen on {host} port {candidate}: {error.strerror}") from error
        return listener
    tried = f"ports {port} to {port + _PORTS_TO_TRY - 1} are" if port == DEFAULT_PORT else f"port {port} is"
    raise click.ClickException(f"{tried} in use on {host}; choose another with --port, or 0 for any free one")
