"""`warpwatch serve`: the dashboard on this machine, with nothing else to set up."""

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
DEFAULT_THREADS = 3  # two that compute something large leave one to all other requests
_PORTS_TO_TRY = 20


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is all of them.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes any free one. If the default is taken, the next free one is.",
)
@click.option("--database", help="SQLAlchemy URL or path; else WARPWATCH_DATABASE, else .warpwatch/warpwatch.db.")
@click.option(
    "--threads",
    default=DEFAULT_THREADS,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Requests served at once; Python runs one at a time, so that more of them slow each other down.",
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
    """Serve the dashboard until Ctrl+C, which ends this call as usual.

    `while_serving` gets the application and its address; its context ends before the store is closed.
    Raises ClickException if the port is taken, the database cannot be opened or a setting is wrong.
    """
    allow_more_files()
    try:
        settings = Settings.from_env()
        settings = replace(settings, database=database) if database else settings
        app = create_app(replace(settings, access=replace(settings.access, served_on=host)))
        listener = _listen(host, port)
    except (StoreError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    # No browser opens "all addresses"; an IPv6 address stands in brackets.
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    server = server_of(app, listener, threads=threads)
    click.echo(f"warpwatch serves on {address}  (Ctrl+C ends it)")
    link = login_link(app, address)
    click.echo(
        f"Everybody on this machine reads. To write too, open {link} (it works once)."
        if link is not None
        else _who_may(settings.access)
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
    """A link that logs one browser in as the local user, once; None where there is no such login."""
    with app.test_request_context(base_url=address):
        if not has_local_login():
            return None
        return url_for("login.local", token=local_link_token(), _external=True)


def _who_may(access: AccessSettings) -> str:
    """Who reads and who writes where there is no local login, in a sentence."""
    if access.reading_requires_login:
        return "Reading wants a login; so does writing, and a role."
    if access.login is not None:
        return "Everybody who reaches it reads; writing wants a login and a role."
    return "Everybody who reaches it reads; without a login (WARPWATCH_LOGIN) nobody writes but with a token."


def server_of(app: Flask, listener: socket.socket, *, threads: int) -> BaseWSGIServer:
    """The application on a socket that listens."""
    # A line for each request that waits for a thread: the log would be those alone, just when there is much to do.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    # waitress takes a body whole before the application can refuse it in words: beyond this it hangs up itself.
    return make_server(app, listener, threads=threads, most_body_bytes=2 * app.config["MAX_CONTENT_LENGTH"])


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket. The default port gives way to the next free one; a chosen port is that port or an error."""
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
    raise click.ClickException(f"{tried} taken on {host}; choose another with --port, or 0 for any free one")
