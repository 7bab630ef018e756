"""What somebody reads, and a program gets, where a request goes wrong: what happened and what to do, in the frame."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask, abort
from flask.testing import FlaskClient

from tests.dashboard.pages.browsing import Tab, faults, serving_app
from warpwatch.dashboard.settings import AccessSettings, OpenIdLogin, Settings
from warpwatch.dashboard.web.app import create_app

PROVIDER = OpenIdLogin(issuer="http://127.0.0.1:9", client_id="x", client_secret="y")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """A dashboard whose uploads are small, with views that go wrong."""
    made = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}", upload_limit_mib=1))

    @made.get("/fault")
    def fault() -> str:
        raise RuntimeError("a fault of ours")

    @made.get("/refused")
    def refused() -> str:
        abort(403, "This needs the role “triager”; Ada has the role “reader”.")

    yield made
    made.extensions["store"].close()


def _take_away(app: Flask) -> None:
    """The database's folder is gone, as a disk that was unplugged."""
    store = app.extensions["store"]
    store.close()
    file = store.sqlite_file
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()
    file.mkdir()


def _status_and_text(client: FlaskClient, address: str) -> tuple[int, str]:
    answer = client.get(address)
    assert "ww-header" in answer.text
    return answer.status_code, answer.text


def test_an_unavailable_database_is_reported_as_that_to_people_and_programs(app: Flask) -> None:
    client = app.test_client()
    _take_away(app)
    status, page = _status_and_text(client, "/")
    assert (status, client.get("/").headers["Retry-After"]) == (503, "5")
    assert "The database does not respond" in page
    assert "/healthz" in page
    answer = client.get("/api/projects")
    assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
    assert answer.json is not None
    assert "database does not respond" in answer.json["detail"]


@pytest.mark.parametrize("has_login", [False, True])
@pytest.mark.parametrize("address", ["/", "/api/projects"])
def test_a_runner_whose_token_cannot_be_looked_up_learns_that_the_database_is_unavailable(
    tmp_path: Path, address: str, has_login: bool
) -> None:
    access = AccessSettings(
        login=PROVIDER if has_login else None, public_url="https://perf.example.org", secret_key="k" * 40
    )
    app = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=access))
    _take_away(app)
    answer = app.test_client().get(
        address, headers={"Authorization": "Bearer ww_1234"}, base_url="https://perf.example.org"
    )
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_errors_say_what_to_do_and_programs_get_the_same_sentence(app: Flask) -> None:
    client = app.test_client()
    app.config["PROPAGATE_EXCEPTIONS"] = False
    status, page = _status_and_text(client, "/fault")
    assert status == 500
    assert "the server’s log has the details" in page
    assert "send the URL and the time to the administrator" in page
    status, page = _status_and_text(client, "/no/such/page")
    assert (status, "<h1>Not found" in page) == (404, True)
    assert "Search for kernels" in page
    for address in ("/api/no-such-thing", "/no/such.json"):
        response = client.get(address)
        assert (response.status_code, response.content_type) == (404, "application/problem+json")
        assert response.json is not None
        assert response.json["detail"] == "There is no page at this URL."


def test_a_body_that_is_too_large_is_refused_in_words(app: Flask) -> None:
    answer = app.test_client().post("/logout", data={"note": "x" * 2**20})
    assert answer.status_code == 413
    assert "larger than the limit of this server" in answer.text
    assert "WARPWATCH_UPLOAD_LIMIT_MIB" in answer.text


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_errors_and_logins_can_be_read_by_everybody(
    app: Flask, tmp_path: Path, new_tab: Callable[..., Tab], width: int, scheme: str
) -> None:
    login = AccessSettings(
        login=PROVIDER, public_url="https://perf.example.org", secret_key="k" * 40, reading_requires_login=True
    )
    closed = create_app(Settings(database=f"sqlite:///{tmp_path / 'closed.db'}", access=login))
    tab = new_tab(width=width, scheme=scheme)
    with serving_app(app) as one, serving_app(closed) as other:
        for address in (
            f"{one}/no/such/page",
            f"{one}/refused",
            f"{one}/fault",
            f"{other}/",
            f"{other}/login",
            f"{other}/login/start",
        ):
            tab.open(address)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
            assert faults(tab) == [], address
        _take_away(app)
        assert tab.open(f"{one}/") == 503
