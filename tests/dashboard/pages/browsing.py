"""The dashboard on a socket, a browser tab that remembers complaints, and the name that no page may run."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Page
from waitress import wasyncore
from waitress.server import BaseWSGIServer

from warpwatch.dashboard.app import create_app
from warpwatch.dashboard.serving import server_of
from warpwatch.dashboard.settings import Settings

_AXE = Path(__file__).parent / "vendor" / "axe.min.js"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">'\"&{{7*7}}</script><script>document.title='owned'</script>"


@dataclass
class Tab:
    """A browser page and everything it complained about."""

    page: Page
    complaints: list[str]

    def open(self, url: str) -> int:
        """Loads the page and waits for its figures; returns the HTTP status."""
        response = self.page.goto(url, wait_until="load")
        for plot in self.page.locator(".ww-plot").all():
            plot.scroll_into_view_if_needed()
            self.page.wait_for_function("plot => plot.dataset.drawn", arg=plot.element_handle())
        return response.status if response else 0


def faults(tab: Tab) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA, as readable lines."""
    # Through the debugger's protocol, which a page's policy does not bind.
    tab.page.evaluate(_AXE.read_text())
    found = tab.page.evaluate(
        "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


@contextmanager
def a_client(settings: Settings) -> Iterator[FlaskClient]:
    """Of a dashboard without a socket; its store is closed in the end."""
    app = create_app(settings)
    yield app.test_client()
    app.extensions["store"].close()


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The dashboard on a socket of its own, as `warpwatch serve` runs it; the address without a slash at its end."""
    with serving_app(create_app(replace(settings, access=replace(settings.access, served_on="127.0.0.1")))) as url:
        yield url


@contextmanager
def serving_app(app: Flask, *, port: int = 0) -> Iterator[str]:
    """An application on a socket of its own; its store is closed in the end."""
    server = server_of(app, socket.create_server(("127.0.0.1", port)), threads=4)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        _close(server)
        thread.join(timeout=60)
        assert not thread.is_alive()
        app.extensions["store"].close()


def _close(server: BaseWSGIServer) -> None:
    """Closes the sockets in the server's own thread, which would else wait on what is closed under it.

    One of them is the trigger's, so nobody may be about to pull it: the threads that answer requests have ended, and
    this one has let go of it.
    """
    server.task_dispatcher.shutdown(timeout=60)
    is_pulled = threading.Event()

    def close() -> None:
        is_pulled.wait()
        wasyncore.close_all(server._map, ignore_all=True)

    server.trigger.pull_trigger(close)
    is_pulled.set()
