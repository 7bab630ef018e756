"""Logging in at an OpenID provider over HTTP: whole flows, and answers that must not let anybody in."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from joserfc.jwk import OctKey, RSAKey

from tests.dashboard.auth.provider import CLIENT_ID, CLIENT_SECRET, Provider, providing
from tests.dashboard.auth.test_writing import with_views
from tests.dashboard.pages.browsing import serving_app
from warpwatch.dashboard.settings import AccessSettings, OpenIdLogin, Settings
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.auth import identity


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as one:
        yield one


@contextmanager
def serving_people(
    provider: Provider, database: str, *, client_secret: str = CLIENT_SECRET, name_claim: str = "email", **access: Any
) -> Iterator[str]:
    """A dashboard whose people log in at the provider, with access settings of the test's."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    login = OpenIdLogin(issuer=provider.url, client_id=CLIENT_ID, client_secret=client_secret, name_claim=name_claim)
    closed = {"login": login, "public_url": f"http://127.0.0.1:{port}", "reading_requires_login": True}
    settings = Settings(database=database, access=AccessSettings(**closed | access))  # type: ignore[arg-type]
    with serving_app(with_views(create_app(settings)), port=port) as url:
        yield url


@pytest.fixture
def dashboard(provider: Provider, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Serves such a dashboard on an empty store; gives its address."""
    with ExitStack() as stack:
        yield lambda **asked: stack.enter_context(
            serving_people(provider, f"sqlite:///{tmp_path / 'history.db'}", **asked)
        )


def test_the_whole_flow_lets_a_person_in_and_out_again(provider: Provider, dashboard: Callable[..., str]) -> None:
    url = dashboard(triagers=("ADA@example.org",))
    browser = requests.Session()
    first = browser.get(f"{url}/account?x=1", timeout=60)
    assert (first.status_code, "Sign in to view this page" in first.text) == (401, True)
    (start,) = re.findall(r'href="(/login/start[^"]+)"', first.text)
    page = browser.get(url + start, timeout=60)
    assert page.status_code == 200
    assert urlsplit(page.url).path == "/account"
    assert "ada@example.org" in page.text
    assert "Triager: may read and triage" in page.text
    (asked,) = provider.asked
    assert (asked["response_type"], asked["code_challenge_method"], asked["client_id"]) == ("code", "S256", CLIENT_ID)
    assert asked["nonce"]
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert token
    changed = browser.post(f"{url}/change", data={"csrf_token": token[1]}, timeout=60)
    assert changed.json() == {"name": "ada@example.org", "role": "triager", "admin": False}
    assert browser.get(f"{url}/logout", timeout=60).status_code in {404, 405}
    assert browser.post(f"{url}/logout", timeout=60).status_code == 403
    assert browser.post(f"{url}/logout", data={"csrf_token": token[1]}, timeout=60).status_code == 200
    assert browser.get(f"{url}/account", timeout=60).status_code == 401


def test_the_cookie_is_kept_from_scripts_and_other_sites(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    said = requests.get(f"{url}/login/start", allow_redirects=False, timeout=60).headers["Set-Cookie"]
    assert "HttpOnly" in said
    assert "SameSite=Lax" in said
    assert "Secure" not in said  # it would not come back over http


def test_nothing_is_read_before_the_login_but_what_the_login_page_needs(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    for path, status in (
        ("/", 401),
        ("/demo/", 401),
        ("/nothing/at/all", 401),
        ("/api/nothing", 401),
        ("/demo/tokens", 401),
        ("/login", 200),
        ("/static/warpwatch.css", 200),
        ("/healthz", 200),
    ):
        answer = requests.get(url + path, timeout=60)
        assert answer.status_code == status, path
        if status == 401:
            assert "no-store" in answer.headers["Cache-Control"]
    assert requests.get(f"{url}/healthz", timeout=60).json() == {"status": "ok"}
    assert requests.get(f"{url}/api/nothing", timeout=60).json()["detail"].startswith("Sign in to view this page")


@pytest.mark.parametrize(
    ("lists", "role"),
    [
        ({"admins": ("group:kernels",)}, "admin"),
        ({"triagers": ("*@example.org",), "admins": ("group:Kernels", "ada")}, "triager"),
        ({"readers": ("bob@example.org", "ada@example.org")}, "reader"),
        ({"readers": ("*@other.example", "group:people", "example.org")}, None),
    ],
)
def test_roles_come_from_names_domains_and_groups(
    lists: dict[str, Any], role: str | None, dashboard: Callable[..., str]
) -> None:
    url = dashboard(**lists)
    browser = requests.Session()
    page = browser.get(f"{url}/login/start?next=/account", timeout=60)
    if role is None:
        assert page.status_code == 403
        assert "ada@example.org has no role" in page.text
    else:
        assert f"{role.capitalize()}: may read" in page.text
    status = browser.get(f"{url}/form", timeout=60).status_code
    assert status == (403 if role is None else 200)


def test_a_missing_role_is_named(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    browser = requests.Session()
    page = browser.get(f"{url}/login/start?next=/form", timeout=60)
    token = re.search(r'value="([^"]+)"', page.text)
    assert token
    refused = browser.post(f"{url}/change", data={"csrf_token": token[1]}, timeout=60)
    assert refused.status_code == 403
    assert "ada@example.org has the role “reader”" in refused.text
    assert "WARPWATCH_TRIAGERS" in refused.text
    assert browser.get(f"{url}/demo/tokens", timeout=60).status_code == 403


def _wrong_audience(provider: Provider) -> None:
    provider.claims = {"aud": "somebody else", "azp": CLIENT_ID}


def _wrong_issuer(provider: Provider) -> None:
    provider.claims = {"iss": "https://evil.example"}


def _wrong_nonce(provider: Provider) -> None:
    provider.claims = {"nonce": "of another login"}


def _no_nonce(provider: Provider) -> None:
    provider.claims = {"nonce": None}


def _expired(provider: Provider) -> None:
    provider.claims = {"exp": int(time.time()) - 90, "iat": int(time.time()) - 400}


def _endless(provider: Provider) -> None:
    provider.claims = {"exp": None}


def _signed_by_another(provider: Provider) -> None:
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})


def _unsigned(provider: Provider) -> None:
    provider.algorithm = "none"


def _signed_with_the_public_key_as_a_secret(provider: Provider) -> None:
    provider.algorithm = "HS256"
    provider.signing_key = provider.key.as_pem(private=False)  # joserfc itself refuses to sign so


def _signed_with_the_clients_secret(provider: Provider) -> None:
    provider.algorithm = "HS256"
    provider.signing_key = OctKey.import_key(CLIENT_SECRET)


def _no_id_token(provider: Provider) -> None:
    provider.keeps_id_token = True


def _mail_not_verified(provider: Provider) -> None:
    provider.person = {**provider.person, "email_verified": False}


def _mail_of_unknown_standing(provider: Provider) -> None:
    provider.person = {"sub": "1", "email": "ada@example.org"}


def _no_name(provider: Provider) -> None:
    provider.person = {"sub": "1", "email_verified": True}


@pytest.mark.parametrize(
    "spoil",
    [
        _wrong_audience,
        _wrong_issuer,
        _wrong_nonce,
        _no_nonce,
        _expired,
        _endless,
        _signed_by_another,
        _unsigned,
        _signed_with_the_public_key_as_a_secret,
        _signed_with_the_clients_secret,
        _no_id_token,
        _mail_not_verified,
        _mail_of_unknown_standing,
        _no_name,
    ],
)
def test_a_bad_answer_of_the_provider_logs_no_user_in(
    spoil: Callable[[Provider], None], provider: Provider, dashboard: Callable[..., str]
) -> None:
    url = dashboard()
    spoil(provider)
    browser = requests.Session()
    answer = browser.get(f"{url}/login/start", timeout=60)
    assert (answer.status_code, "Sign in" in answer.text) == (403, True)
    assert browser.get(f"{url}/", timeout=60).status_code == 401
    spoiled = vars(provider)
    fresh = vars(Provider())
    for name in ("claims", "person", "algorithm", "signing_key", "keeps_id_token"):
        spoiled[name] = fresh[name]
    assert browser.get(f"{url}/login/start?next=/form", timeout=60).status_code == 200


@pytest.mark.parametrize(
    "listed", [["RS256", "none", "HS256"], ["none"], ["HS256"], ["HS256", "HS384", "HS512"], [], None]
)
@pytest.mark.parametrize("spoil", [_unsigned, _signed_with_the_public_key_as_a_secret, _signed_with_the_clients_secret])
def test_a_provider_that_lists_algorithms_without_a_private_key_is_not_believed(
    listed: list[str] | None, spoil: Callable[[Provider], None], provider: Provider, dashboard: Callable[..., str]
) -> None:
    provider.algorithms = listed
    url = dashboard()
    spoil(provider)
    assert requests.get(f"{url}/login/start", timeout=60).status_code == 403
    provider.algorithm, provider.signing_key = "RS256", None
    assert requests.get(f"{url}/login/start?next=/form", timeout=60).status_code == 200


def _begin(url: str) -> tuple[requests.Session, str]:
    """A login begun, and where the provider would send the browser back to."""
    browser = requests.Session()
    away = browser.get(f"{url}/login/start", allow_redirects=False, timeout=60).headers["Location"]
    return browser, requests.get(away, allow_redirects=False, timeout=60).headers["Location"]


def test_a_state_of_another_browser_or_none_is_refused(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    browser, back = _begin(url)
    other, _ = _begin(url)
    state = parse_qs(urlsplit(back).query)["state"][0]
    for one, address in (
        (other, back),  # somebody else's login, handed to a victim
        (requests.Session(), back),
        (browser, back.replace(state, "x")),
        (browser, back.replace(f"&state={state}", "")),
        (browser, f"{url}/login/callback?error=access_denied&state={state}"),
        (browser, f"{url}/login/callback"),
    ):
        assert one.get(address, timeout=60).status_code == 403
        assert one.get(f"{url}/", timeout=60).status_code == 401


def test_an_answer_serves_once(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    browser, back = _begin(url)
    cookies = requests.Session()
    cookies.cookies.update(browser.cookies)
    assert browser.get(back, timeout=60).status_code == 200
    assert browser.get(back, timeout=60).status_code == 403
    assert cookies.get(back, timeout=60).status_code == 403  # the provider takes a code once


def test_a_wrong_client_secret_logs_no_user_in(dashboard: Callable[..., str]) -> None:
    url = dashboard(client_secret="wrong")
    assert requests.get(f"{url}/login/start", timeout=60).status_code == 403


def test_a_discovery_document_of_another_issuer_is_not_believed(
    provider: Provider, dashboard: Callable[..., str]
) -> None:
    provider.published_issuer = "https://evil.example"
    answer = requests.get(f"{dashboard()}/login/start", timeout=60)
    assert (answer.status_code, provider.asked) == (502, [])


def test_after_the_login_only_pages_of_ours_are_opened(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    for asked in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/%09/evil.example",
        "/\t/evil.example",
        "evil.example",
    ):
        page = requests.Session().get(f"{url}/login/start", params={"next": asked}, timeout=60)
        assert urlsplit(page.url).netloc == urlsplit(url).netloc, asked


def test_a_session_ends_by_itself(dashboard: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = dashboard(session_hours=1)
    browser = requests.Session()
    assert browser.get(f"{url}/login/start?next=/form", timeout=60).status_code == 200
    real = time.time
    monkeypatch.setattr(identity, "time", SimpleNamespace(time=lambda: real() + 3590))
    assert browser.get(f"{url}/form", timeout=60).status_code == 200
    monkeypatch.setattr(identity, "time", SimpleNamespace(time=lambda: real() + 3610))
    browser.cookies = requests.cookies.cookiejar_from_dict(dict(browser.cookies))  # sent however old it is
    assert browser.get(f"{url}/form", timeout=60).status_code == 401


def test_a_changed_session_is_nobodys(dashboard: Callable[..., str]) -> None:
    url = dashboard()
    browser = requests.Session()
    browser.get(f"{url}/login/start", timeout=60)
    cookie = browser.cookies["warpwatch"]
    for changed in (cookie[:-2] + "xx", "x" + cookie, cookie.rpartition(".")[0]):
        assert requests.get(f"{url}/", cookies={"warpwatch": changed}, timeout=60).status_code == 401
    assert requests.get(f"{url}/", cookies={"warpwatch": cookie}, timeout=60).status_code == 200


def test_reading_may_stay_open_with_a_login(dashboard: Callable[..., str]) -> None:
    url = dashboard(reading_requires_login=False)
    page = requests.get(f"{url}/form", timeout=60)
    assert page.status_code == 200
    answer = requests.get(f"{url}/", timeout=60)
    assert "Sign in" in answer.text
