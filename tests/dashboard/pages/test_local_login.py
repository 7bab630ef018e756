"""The login by the link that `warpwatch serve` prints: once, for this browser, with no token left anywhere."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.dashboard.auth.test_writing import with_views
from tests.dashboard.pages.browsing import Tab, serving_app
from warpwatch.dashboard.cli.serve import login_link
from warpwatch.dashboard.settings import AccessSettings, ProxyLogin, Settings
from warpwatch.dashboard.web.app import create_app


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """A link of a server on this machine alone."""
    settings = Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=AccessSettings(served_on="127.0.0.1"))
    app = with_views(create_app(settings))
    with serving_app(app) as url:
        made = login_link(app, f"{url}/")
        assert made is not None
        yield made


def _home(link: str) -> str:
    return link.partition("/login/")[0]


def test_the_link_logs_one_browser_in_once(link: str) -> None:
    home = _home(link)
    with requests.Session() as browser, requests.Session() as other:
        assert browser.get(f"{home}/", timeout=60).status_code == 200  # reading needs no login
        assert browser.get(f"{home}/account", timeout=60).status_code == 404
        assert other.head(link, timeout=60).status_code == 405  # looking whether it is there uses nothing up
        answer = browser.get(link, timeout=60, allow_redirects=False)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
        assert cookie.startswith(f"warpwatch-{home.rpartition(':')[2]}=")
        assert "Admin: may" in browser.get(f"{home}/account", timeout=60).text
        again = other.get(link, timeout=60)
        assert (again.status_code, "This link is used or expired" in again.text) == (403, True)
        assert other.get(f"{home}/account", timeout=60).status_code == 404
        token = re.findall(r'name="csrf_token" value="([^"]+)"', browser.get(f"{home}/form", timeout=60).text)[0]
        assert browser.post(f"{home}/change", data={"csrf_token": token}, timeout=60).json()["role"] == "admin"


@pytest.mark.parametrize("token", ["", "x", "é", "x" * 5000])
def test_a_wrong_token_logs_no_user_in_and_uses_nothing_up(link: str, token: str) -> None:
    home = _home(link)
    with requests.Session() as browser:
        assert browser.get(f"{home}/login/local", params={"token": token}, timeout=60).status_code == 403
        assert browser.get(f"{home}/account", timeout=60).status_code == 404
        assert browser.get(link, timeout=60).status_code == 200
        assert browser.get(f"{home}/account", timeout=60).status_code == 200


def test_neither_the_page_behind_the_link_nor_a_referer_has_the_token(link: str, new_tab: Callable[..., Tab]) -> None:
    token = link.partition("token=")[2]
    page = new_tab().page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.url} {request.all_headers().get('referer', '')}"))
    page.goto(link)
    page.locator("[data-access-menu]").click()
    assert page.url == f"{_home(link)}/account"
    assert len([line for line in asked if token in line]) == 1  # the link itself
    assert token not in page.content()


@pytest.mark.parametrize(
    "access",
    [AccessSettings(), AccessSettings(served_on="0.0.0.0"), AccessSettings(served_on="127.0.0.1", login=ProxyLogin())],
)
def test_a_server_for_others_has_no_such_link(access: AccessSettings, tmp_path: Path) -> None:
    app = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=access))
    assert login_link(app, "http://127.0.0.1:1/") is None
    assert app.test_client().get("/login/local?token=x").status_code == 404
    app.extensions["store"].close()


def test_a_session_of_another_server_s_key_is_none(link: str, tmp_path: Path) -> None:
    with requests.Session() as browser:
        browser.get(link, timeout=60)
        (cookie,) = browser.cookies
        forged = (cookie.value or "")[:-4] + "AAAA"
        answer = requests.get(f"{_home(link)}/account", cookies={cookie.name: forged}, timeout=60)
        assert answer.status_code == 404


def test_serve_prints_a_link_that_works_and_never_its_use(tmp_path: Path) -> None:
    environment = {**os.environ, "WARPWATCH_DATABASE": str(tmp_path / "x.db"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "warpwatch.ci.cli", "serve", "--port", "0"],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        printed = re.search(r"http://\S+", server.stdout.readline())
        assert printed is not None
        with requests.Session() as browser:
            assert browser.get(printed[0], timeout=60).status_code == 200
            assert browser.get(f"{_home(printed[0])}/account", timeout=60).status_code == 200
        server.send_signal(signal.SIGINT)
        assert printed[0].partition("token=")[2] not in server.stdout.read()
