"""The dashboard on a socket, a browser tab that remembers complaints, and the name that no page may run."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Page
from waitress import wasyncore
from waitress.server import BaseWSGIServer

from warpwatch.dashboard.cli.serve import login_link, server_of
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app

_AXE = Path(__file__).parent / "vendor" / "axe.min.js"
_STANDARDS = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
_COLOUR_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Only the faults leave the page: describing all that passed takes longer than to check it.
_FIND_FAULTS = """async options => (await axe.run(options)).violations.flatMap(
  violation => violation.nodes.map(
    node => `${violation.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 300)}`))"""
_SERVED: dict[int, Flask] = {}  # what `serving_app` runs, by port
HOSTILE = "<img src=x onerror=\"document.title='owned'\">'\"&{{7*7}}</script><script>document.title='owned'</script>"


@dataclass
class Tab:
    """A browser page and everything it complained about."""

    page: Page
    complaints: list[str]

    def open(self, url: str) -> int:
        """Loads the page, as the local user of its server, and waits for its figures; returns the HTTP status."""
        log_in(self.page, url)
        response = self.page.goto(url, wait_until="load")
        plots = self.page.locator(".ww-plot").all()
        for plot in (*plots, *plots[:1]):  # and back to the first, which tests point at
            plot.scroll_into_view_if_needed()
            self.page.wait_for_function("plot => plot.dataset.drawn", arg=plot.element_handle())
        return response.status if response else 0

    def resize(self, width: int) -> None:
        """Gives the view another width and waits until the page fits into it, which no page may fail to do."""
        self.page.set_viewport_size({"width": width, "height": 900})
        fits = "width => innerWidth === width && document.documentElement.scrollWidth <= width"
        self.page.wait_for_function(fits, arg=width, timeout=20_000)


def faults(tab: Tab, *, of_colour: bool = False) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA, as readable lines; with `of_colour` the rules on colours alone."""
    if not tab.page.evaluate("'axe' in window"):  # through the debugger's protocol, which a page's policy does not bind
        tab.page.evaluate(_AXE.read_text())
    rules = _COLOUR_RULES if of_colour else _STANDARDS
    found: list[str] = tab.page.evaluate(_FIND_FAULTS, {"runOnly": rules, "resultTypes": ["violations"]})
    return found


@contextmanager
def a_client(settings: Settings) -> Iterator[FlaskClient]:
    """Of a dashboard without a socket, as its local user; its store is closed in the end."""
    app = create_app(settings)
    yield local_client(app)
    app.extensions["store"].close()


def local_client(app: Flask) -> FlaskClient:
    """A client as the local user, where the application has one."""
    client = app.test_client()
    for name, value in _cookies(app, 80).items():
        client.set_cookie(name, value)
    return client


def log_in(page: Page, url: str) -> None:
    """Log the page's browser in as the local user of the server at this address, unless it is already."""
    origin = f"http://{urlsplit(url).netloc}/"
    known = {cookie["name"] for cookie in page.context.cookies(origin)}
    cookies = [(name, value) for name, value in local_cookies(url).items() if name not in known]
    if cookies:
        page.context.add_cookies([{"name": name, "value": value, "url": origin} for name, value in cookies])


def local_link(url: str) -> str | None:
    """A link that logs in at the server at this address; None where there is no such login."""
    return login_link(_SERVED[urlsplit(url).port or 0], f"{url}/")


def local_cookies(url: str) -> dict[str, str]:
    """The cookies of the local user of the server at this address; none where `serving_app` runs no such."""
    port = urlsplit(url).port
    return _cookies(_SERVED[port], port) if port in _SERVED else {}


def _cookies(app: Flask, port: int | None) -> dict[str, str]:
    if not app.extensions["access"].settings.has_local_login:
        return {}
    serializer = app.session_interface.get_signing_serializer(app)  # type: ignore[attr-defined]
    return {f"warpwatch-{port}": serializer.dumps({"local": True, "_permanent": True})}


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
    _SERVED[int(server.effective_port)] = app
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        del _SERVED[int(server.effective_port)]
        _close(server)
        thread.join(timeout=60)
        assert not thread.is_alive()
        app.extensions["store"].close()


def _close(server: BaseWSGIServer) -> None:
    """Closes the sockets in the server's own thread, which would else wait on what is closed under it.

    One of them is the trigger's, so no thread may be about to pull it: the threads that answer requests have ended, and
    this one has let go of it.
    """
    server.task_dispatcher.shutdown(timeout=60)
    is_pulled = threading.Event()

    def close() -> None:
        is_pulled.wait()
        wasyncore.close_all(server._map, ignore_all=True)

    server.trigger.pull_trigger(close)
    is_pulled.set()
