"""An admin's page of tokens, clicked through in Chromium, and what the tokens made there may do."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.dashboard.auth.provider import Provider, providing
from tests.dashboard.auth.test_openid import serving_people
from tests.dashboard.auth.test_writing import browser_with_token, with_views
from tests.dashboard.importers.recorded_files import COMMIT, RECORDED
from tests.dashboard.pages.browsing import HOSTILE, Tab, serving_app
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.tokens import Scope, create_token, tokens
from warpwatch.dashboard.web.app import create_app


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store with a project that has one token, of a hostile name."""
    made = Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=AccessSettings(served_on="127.0.0.1"))
    store = Store(made.database)
    create_token(store, "demo", name=HOSTILE, now_ms=1)
    store.close()
    return made


@pytest.fixture
def address(settings: Settings) -> Iterator[str]:
    with serving_app(with_views(create_app(settings))) as url:
        yield url


def test_a_token_is_made_shown_once_used_and_revoked(
    address: str, settings: Settings, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    page = tab.page
    tab.open(f"{address}/demo/")
    page.locator("[data-access-menu]").click()
    page.get_by_role("link", name="demo").click()
    page.get_by_label("Name of the new token").fill("t4 runner")
    with page.expect_response(lambda response: response.request.method == "POST") as answered:
        page.get_by_role("button", name="Create token").click()
    assert "no-store" in answered.value.headers["cache-control"]
    secret = page.locator("#token").text_content()
    assert secret is not None
    assert secret.startswith("warpwatch_")
    body = (RECORDED / "nvbench.json").read_bytes()
    upload = f"{address}/api/projects/demo/results?commit={COMMIT}&date=2026-01-01&machine=lab"
    bearer = {"Authorization": f"Bearer {secret}"}
    assert requests.post(upload, data=body, headers=bearer, timeout=60).status_code == 200
    tab.open(f"{address}/demo/tokens")
    assert secret not in page.content()
    assert page.locator("tbody tr").count() == 2
    assert page.title() != "owned"
    row = page.locator("tbody tr").filter(has_text="t4 runner")
    assert "uploading results" in row.inner_text()
    row.get_by_role("button").click()
    row.get_by_text("ended").wait_for()
    assert row.get_by_role("button").count() == 0
    assert requests.post(upload, data=body, headers=bearer, timeout=60).status_code == 401
    assert [said for said in tab.complaints if "logo.svg" not in said] == []  # left before its icon came
    store = Store(settings.database)
    assert [token.name for token in tokens(store)] == [HOSTILE, "t4 runner"]
    store.close()


def test_what_the_form_cannot_send_is_refused(address: str) -> None:
    browser, token = browser_with_token(address)
    good = {"csrf_token": token, "name": "runner", "scope": "upload", "days": "30"}
    for wrong, said in (
        ({"days": "31"}, "not a lifetime"),
        ({"days": "x"}, "not a lifetime"),
        ({"scope": "all"}, "not a scope"),
        ({"scope": ""}, "not a scope"),
        ({"name": " "}, "invalid"),
        ({"name": "a\0b"}, "invalid"),
    ):
        answer = browser.post(f"{address}/demo/tokens", data=good | wrong, timeout=60)
        assert (answer.status_code, said in answer.text) == (400, True), wrong
    assert browser.post(f"{address}/nobody/tokens", data=good, timeout=60).status_code == 404
    assert browser.post(f"{address}/demo/tokens/99/revoke", data=good, timeout=60).status_code == 404
    del good["csrf_token"]
    assert browser.post(f"{address}/demo/tokens", data=good, timeout=60).status_code == 403
    assert browser.post(f"{address}/demo/tokens/1/revoke", timeout=60).status_code == 403


def test_a_token_does_what_it_is_for_in_its_project_alone(settings: Settings) -> None:
    store = Store(settings.database)
    made = {str(scope): create_token(store, "demo", name=scope, scope=scope, now_ms=1) for scope in Scope}
    made["old"] = create_token(store, "demo", name="old", scope=Scope.TRIAGE, now_ms=1, ends_ms=2)
    create_token(store, "other", name="x", now_ms=1)
    app = with_views(create_app(settings))
    app.add_url_rule(
        "/api/<project>/change", "change_by_token", lambda project: app.view_functions["change"](), methods=["POST"]
    )
    with serving_app(app) as url:

        def send(method: str, path: str, token: str) -> tuple[int, str]:
            answer = requests.request(method, url + path, headers={"Authorization": f"Bearer {token}"}, timeout=60)
            return answer.status_code, json.dumps(answer.json(), ensure_ascii=False) if "api" in path else answer.text

        status, text = send("POST", "/api/demo/change", made[Scope.TRIAGE])
        assert (status, json.loads(text)["name"], json.loads(text)["role"]) == (200, "token triage", "triager")
        for path, token, status, said in (
            ("/api/other/change", made[Scope.TRIAGE], 403, "of the project demo only"),
            ("/api/demo/change", made[Scope.READ], 403, "token is for “read”"),
            ("/api/demo/change", made[Scope.UPLOAD], 403, "token is for “upload”"),
            ("/api/demo/change", made["old"], 401, "revoked or expired"),
            ("/api/projects/demo/results", made[Scope.TRIAGE], 403, "not for uploads"),
            ("/demo/tokens", made[Scope.TRIAGE], 403, "This token is for “triage”"),
        ):
            assert send("POST", path, token)[0] == status
            assert said in send("POST", path, token)[1]
    store.close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as one:
        yield one


def test_where_reading_requires_a_login_a_token_reads_its_project(provider: Provider, settings: Settings) -> None:
    store = Store(settings.database)
    token = create_token(store, "demo", name="ci", scope=Scope.READ, now_ms=1)
    upload = create_token(store, "demo", name="runner", now_ms=1)
    create_token(store, "other", name="x", now_ms=1)
    with serving_people(provider, settings.database) as url:
        for path, given, status in (
            ("/demo/", token, 200),
            ("/other/", token, 403),
            ("/", token, 403),
            ("/demo/", "x", 401),
            ("/demo/", upload, 403),
            ("/demo/tokens", token, 403),
        ):
            answer = requests.get(url + path, headers={"Authorization": f"Bearer {given}"}, timeout=60)
            assert answer.status_code == status, path
            assert 'href="/other/' not in answer.text, path
    store.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_person_logs_in_and_out_in_a_browser(
    width: int, provider: Provider, settings: Settings, new_tab: Callable[..., Tab]
) -> None:
    with serving_people(provider, settings.database, admins=("ada@example.org",)) as url:
        tab = new_tab(width=width)
        page = tab.page
        assert tab.open(f"{url}/demo/tokens") == 401
        page.get_by_role("link", name="Sign in with your account").click()
        page.wait_for_url(f"{url}/demo/tokens")
        assert page.get_by_role("heading", name="Tokens").count() == 1
        page.locator("[data-access-menu]").click()
        page.get_by_role("button", name="Sign out").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{url}/login")
        assert tab.open(f"{url}/demo/tokens") == 401
        # A page that is left at once is left before its icon came.
        assert [said for said in tab.complaints if "401" not in said and "logo.svg" not in said] == []
