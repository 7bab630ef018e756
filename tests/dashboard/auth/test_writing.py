"""Who may change something, asked of a real server: roles, and requests that other sites forge."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from flask import Flask, jsonify, render_template_string

from tests.dashboard.pages.browsing import local_link, serving_app
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.auth import Role, has_role, person, require_role

FORM = '<form method="post" action="/change"><input name="csrf_token" value="{{ csrf_token() }}"></form>'


def with_views(app: Flask) -> Flask:
    """The application with a form, and two views that take it: one wants a role."""

    @app.get("/form")
    def form() -> str:
        return render_template_string(FORM + "{{ has_role('triager') }}")

    @app.post("/change")
    @require_role(Role.TRIAGER)
    def change():  # type: ignore[no-untyped-def]
        known = person()
        assert known is not None
        return jsonify(name=known.name, role=known.role, admin=has_role(Role.ADMIN))

    app.add_url_rule("/api/change", view_func=change, methods=["POST"])
    return app


def served(tmp_path: Path, access: AccessSettings) -> Iterator[str]:
    settings = Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=access)
    with serving_app(with_views(create_app(settings))) as url:
        yield url


@pytest.fixture
def local(tmp_path: Path) -> Iterator[str]:
    """A server on this machine alone, without a login."""
    yield from served(tmp_path, AccessSettings(served_on="127.0.0.1"))


@pytest.fixture
def public(tmp_path: Path) -> Iterator[str]:
    """A server on all addresses, without a login."""
    yield from served(tmp_path, AccessSettings(served_on="0.0.0.0"))


def browser_with_token(url: str) -> tuple[requests.Session, str]:
    """A session, of the local user where there is one, that has seen the form; and the token in it."""
    session = requests.Session()
    if link := local_link(url):
        session.get(link, timeout=60)
    found = re.search(r'value="([^"]+)"', session.get(f"{url}/form", timeout=60).text)
    assert found
    return session, found[1]


def test_the_local_user_is_admin(local: str) -> None:
    session, token = browser_with_token(local)
    answer = session.post(f"{local}/change", data={"csrf_token": token}, timeout=60)
    assert (answer.status_code, answer.json()["role"], answer.json()["admin"]) == (200, "admin", True)
    assert answer.json()["name"]
    assert session.post(f"{local}/api/change", headers={"X-CSRF-Token": token}, timeout=60).status_code == 200


def test_without_a_login_writing_on_another_address_is_refused(public: str) -> None:
    session, token = browser_with_token(public)
    answer = session.post(f"{public}/change", data={"csrf_token": token}, timeout=60)
    assert (answer.status_code, "This dashboard has no login" in answer.text) == (401, True)
    assert answer.headers["Content-Type"].startswith("text/html")
    answer = session.post(f"{public}/api/change", data={"csrf_token": token}, timeout=60)
    assert (answer.status_code, "This dashboard has no login" in answer.json()["detail"]) == (401, True)
    assert "False" in session.get(f"{public}/form", timeout=60).text


def test_a_token_is_another_text_in_each_answer_and_each_text_works(local: str) -> None:
    session, first = browser_with_token(local)
    second = re.findall(r'value="([^"]+)"', session.get(f"{local}/form", timeout=60).text)[0]
    assert first != second
    for token in (first, second, first):
        assert session.post(f"{local}/change", data={"csrf_token": token}, timeout=60).status_code == 200
    assert first[:6] != second[:6]
    assert first[-6:] != second[-6:]  # nothing stays the same for the lengths of compressed pages to reveal


def test_a_change_without_a_csrf_token_is_refused(local: str) -> None:
    session, token = browser_with_token(local)
    _, other = browser_with_token(local)
    for given in ("", "x", token[:-1], other, "é"):
        for sent in ({"data": {"csrf_token": given}}, {"headers": {"X-CSRF-Token": given.replace("é", "e")}}):
            answer = session.post(f"{local}/change", timeout=60, **sent)
            assert (answer.status_code, "Reload the page" in answer.text) == (403, True)
    assert requests.post(f"{local}/change", data={"csrf_token": token}, timeout=60).status_code == 403


def test_a_cross_site_change_is_refused_even_with_the_token(local: str) -> None:
    session, token = browser_with_token(local)
    for headers, status in (
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": local, "Sec-Fetch-Site": "same-origin"}, 200),
    ):
        answer = session.post(f"{local}/change", data={"csrf_token": token}, headers=headers, timeout=60)
        assert answer.status_code == status, headers


def test_a_bearer_is_not_also_the_one_at_the_machine(local: str) -> None:
    answer = requests.post(f"{local}/api/change", headers={"Authorization": "Bearer x"}, timeout=60)
    assert answer.status_code == 401
