"""Two people of one name, cookies of another shape, and what a read token may read of no project."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.asv_results import AsvResults, hash_of
from warpwatch.dashboard.settings import AccessSettings, OpenIdLogin, Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.notes import add_annotation, annotations
from warpwatch.dashboard.store.tokens import Scope, create_token
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.auth.csrf import masked

LOGIN = OpenIdLogin(issuer="https://login.example.org", client_id="warpwatch", client_secret="s", name_claim="name")
NOW = 4_000_000_000  # a login's time: in the future, so that it is not over


@contextmanager
def _dashboard(folder: Path) -> Iterator[Flask]:
    """A dashboard with a login for reading, and a commit of the project "demo"."""
    database = f"sqlite:///{folder / 'history.db'}"
    asv = AsvResults(folder / "results")
    store = Store(database)
    asv.commit(1, {"suite.time_it": asv.row([1.0])})
    asv.load(store)
    store.close()
    access = AccessSettings(
        login=LOGIN, reading_requires_login=True, public_url="http://localhost", triagers=("Kim",), admins=("root",)
    )
    app = create_app(Settings(database=database, access=access))
    yield app
    app.extensions["store"].close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FlaskClient]:
    """Of a dashboard that the test may change."""
    with _dashboard(tmp_path) as app:
        yield app.test_client()


@pytest.fixture(scope="module")
def _unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    with _dashboard(tmp_path_factory.mktemp("unchanged")) as app:
        yield app


@pytest.fixture
def visitor(_unchanged: Flask) -> FlaskClient:
    """A new browser at one dashboard of all tests that change nothing."""
    return _unchanged.test_client()


def _log_in(client: FlaskClient, name: str, subject: str) -> None:
    with client.session_transaction() as session:
        session.clear()
        session["person"] = {"name": name, "subject": subject, "groups": [], "at": NOW}
        session["csrf"] = "token"


def _delete(client: FlaskClient, number: int) -> int:
    return client.post(f"/demo/notes/{number}/delete", data={"csrf_token": masked("token")}).status_code


def _button(client: FlaskClient) -> bool:
    return "/notes/1/delete" in client.get(f"/demo/commit/{hash_of(1)}").get_data(as_text=True)


def test_a_note_is_its_subjects_and_not_everybodys_of_that_name(client: FlaskClient) -> None:
    _log_in(client, "Kim", "https://login.example.org 1")
    note = {"csrf_token": masked("token"), "commit": hash_of(1), "text": "a fan failed"}
    made = client.post("/demo/notes", data=note)
    assert made.status_code == 303
    assert _button(client)
    _log_in(client, "Kim", "https://login.example.org 2")
    assert not _button(client)
    assert _delete(client, 1) == 403
    _log_in(client, "Kim", "https://login.example.org 1")
    assert _delete(client, 1) == 303


def test_a_note_of_an_unknown_author_is_deleted_by_an_admin(client: FlaskClient) -> None:
    store = client.application.extensions["store"]
    add_annotation(store, "demo", hash_of(1), author="Kim", text="old", now_ms=1)
    _log_in(client, "Kim", "https://login.example.org 1")
    assert _delete(client, 1) == 403
    _log_in(client, "root", "https://login.example.org 3")
    assert _delete(client, 1) == 303
    assert annotations(store, "demo") == ()


PERSON = {"name": "Kim", "subject": "1", "groups": [], "at": NOW}


@pytest.mark.parametrize(
    "content",
    [
        *({"person": {key: value for key, value in PERSON.items() if key != left_out}} for left_out in PERSON),
        *({"person": {**PERSON, key: wrong}} for key in PERSON for wrong in (None, 1.5, {"a": 1}, [1])),
        *({"person": wrong} for wrong in ("Kim", 1, None, [], [PERSON])),
        *({"csrf": wrong} for wrong in (1, None, ["x"], {"x": 1})),
        *({"_flashes": wrong} for wrong in (1, "x", [1], [["a"]], {"a": "b"})),
        {"_state_openid_x": 1},
        [1, 2],
        "text",
        7,
        [["csrf", 1]],
    ],
    ids=str,
)
def test_a_signed_session_of_another_shape_is_dropped(content: Any, visitor: FlaskClient) -> None:
    app = visitor.application
    serializer = app.session_interface.get_signing_serializer(app)  # type: ignore[attr-defined]
    visitor.set_cookie("warpwatch", serializer.dumps(content))
    for path in ("/", "/account", "/login", "/demo/"):
        assert visitor.get(path).status_code in {200, 302, 401}
    assert visitor.post("/demo/notes", data={"csrf_token": "x"}).status_code == 401
    assert visitor.post("/logout", data={"csrf_token": "x"}).status_code in {302, 303, 403, 404}


@pytest.mark.parametrize(("scope", "status"), [(Scope.READ, 200), (Scope.TRIAGE, 200), (Scope.UPLOAD, 403)])
def test_a_token_that_reads_may_read_the_apis_document(scope: Scope, status: int, client: FlaskClient) -> None:
    store = client.application.extensions["store"]
    bearer = {"Authorization": f"Bearer {create_token(store, 'demo', name='reader', scope=scope, now_ms=1)}"}
    assert client.get("/api/openapi.json", headers=bearer).status_code == status
    assert client.get("/api/projects", headers=bearer).status_code == 403
    assert client.get("/api/openapi.json").status_code == 401


@pytest.mark.parametrize(
    "since", ["0", "1700000000", "2026-01-01T00:00:00", "20260101", "2026-1-1", "2026-13-01", "1e9"]
)
@pytest.mark.parametrize("resource", ["regressions?since=", "series/x/history?since=", "series/x/history?until="])
def test_a_date_is_a_full_date(since: str, resource: str, visitor: FlaskClient) -> None:
    _log_in(visitor, "Kim", "1")
    answer = visitor.get(f"/api/projects/demo/{resource}{since}")
    assert answer.status_code == 422
    assert visitor.get("/api/projects/demo/regressions?since=2026-01-31").status_code == 200
