"""Which headers are trusted: reverse proxies and the user names they supply, host names; and rate limits."""

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.dashboard.auth.test_writing import browser_with_token
from warpwatch.dashboard.settings import ProxyLogin
from warpwatch.dashboard.web.auth.proxies import host_name

LOCAL = (ipaddress.ip_network("127.0.0.1/32"),)
ELSEWHERE = (ipaddress.ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(
    ("proxies", "status"), [(LOCAL, 200), (ELSEWHERE, 401), ((ipaddress.ip_network("127.0.0.2/32"),), 401)]
)
def test_a_name_counts_only_from_a_proxy_of_ours(
    proxies: tuple[Any, ...], status: int, dashboard: Callable[..., str]
) -> None:
    url = dashboard(login=ProxyLogin(), proxies=proxies, reading_requires_login=True, admins=("ada",))
    answer = requests.get(f"{url}/account", headers={"X-Forwarded-User": "ada"}, timeout=60)
    assert answer.status_code == status
    assert ("Admin: may" in answer.text) is (status == 200)
    for headers in ({}, {"X-Forwarded-User": ""}, {"X_Forwarded_User": "ada"}, {"Remote-User": "ada"}):
        assert requests.get(f"{url}/account", headers=headers, timeout=60).status_code == 401


def test_groups_and_names_of_any_script_come_from_the_proxy_too(dashboard: Callable[..., str]) -> None:
    login = ProxyLogin(user_header="Remote-User", groups_header="Remote-Groups")
    url = dashboard(login=login, proxies=LOCAL, triagers=("group:kernels",), admins=("Zoë",))
    for name, groups, role in (
        ("bob", "people, kernels", "Triager"),
        ("Zoë", "", "Admin"),
        ("bob", "group:kernels,Kernels", "Reader"),
    ):
        page = requests.get(
            f"{url}/account", headers={"Remote-User": name.encode(), "Remote-Groups": groups}, timeout=60
        )
        page.encoding = "utf-8"
        assert f"{role}: may read" in page.text
        assert name in page.text


def test_groups_count_only_where_their_header_is_named(dashboard: Callable[..., str]) -> None:
    url = dashboard(login=ProxyLogin(), proxies=LOCAL, admins=("group:ops",))
    headers = {"X-Forwarded-User": "rita", "X-Forwarded-Groups": "ops", "Remote-Groups": "ops"}
    account = requests.get(f"{url}/account", headers=headers, timeout=60)
    assert "rita" in account.text
    assert "Admin: may" not in account.text


@pytest.mark.parametrize("public_url", ["https://perf.example.org", "https://perf.example.org/bench", None])
def test_a_prefix_counts_only_where_it_is_the_public_addresss(
    public_url: str | None, dashboard: Callable[..., str]
) -> None:
    url = dashboard(proxies=LOCAL, public_url=public_url)
    for prefix in ("//evil.example", "/other", "https://evil.example", "/bench/more"):
        seen = requests.get(f"{url}/seen", headers={"X-Forwarded-Prefix": prefix}, timeout=60)
        assert seen.json()["url"] == f"{url}/seen"


def test_a_name_of_two_headers_is_nobodys(dashboard: Callable[..., str]) -> None:
    url = dashboard(
        login=ProxyLogin(), proxies=LOCAL, reading_requires_login=True, triagers=("*@example.org",), readers=("*",)
    )
    for name, status in (
        ("bob@other.org, x@example.org", 401),
        ("x@example.org,bob@other.org", 401),
        ("ann@example.org", 200),
    ):
        account = requests.get(f"{url}/account", headers={"X-Forwarded-User": name}, timeout=60)
        assert account.status_code == status
    both = requests.get(f"{url}/account", headers={"X-Forwarded-User": "bob@evil.org@example.org"}, timeout=60)
    assert "Triager" not in both.text


def test_changes_under_a_proxys_login_require_our_token_too(dashboard: Callable[..., str]) -> None:
    url = dashboard(login=ProxyLogin(), proxies=LOCAL, triagers=("ada",))
    browser, token = browser_with_token(url)
    browser.headers["X-Forwarded-User"] = "ada"
    assert browser.post(f"{url}/change", timeout=60).status_code == 403
    assert browser.post(f"{url}/change", data={"csrf_token": token}, timeout=60).json()["name"] == "ada"
    browser.headers["X-Forwarded-User"] = "bob"
    assert browser.post(f"{url}/change", data={"csrf_token": token}, timeout=60).status_code == 403


def test_behind_a_proxy_addresses_and_cookies_are_those_of_the_outside(dashboard: Callable[..., str]) -> None:
    outside = {
        "X-Forwarded-For": "203.0.113.9",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "perf.example.org",
        "X-Forwarded-Prefix": "/bench",
    }
    url = dashboard(proxies=LOCAL, public_url="https://perf.example.org/bench")
    seen = requests.get(f"{url}/seen", headers=outside, timeout=60)
    assert seen.json() == {"address": "203.0.113.9", "url": "https://perf.example.org/bench/seen"}
    assert seen.headers["Strict-Transport-Security"].startswith("max-age=")
    cookie = requests.get(f"{url}/form", headers=outside, timeout=60).headers["Set-Cookie"]
    assert "Secure" in cookie
    assert "Path=/bench" in cookie
    del outside["X-Forwarded-Prefix"]
    cookie = requests.get(f"{url}/form", headers=outside, timeout=60).headers["Set-Cookie"]
    assert cookie.startswith("__Host-warpwatch=")
    plain = requests.get(f"{url}/seen", timeout=60)
    assert plain.json()["url"] == f"{url}/seen"
    assert "Strict-Transport-Security" not in plain.headers


def test_an_unknown_peers_forwarding_headers_change_nothing(dashboard: Callable[..., str]) -> None:
    url = dashboard(proxies=ELSEWHERE, public_url="https://perf.example.org")
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "perf.example.org"}
    assert requests.get(f"{url}/seen", headers=headers, timeout=60).json() == {
        "address": "127.0.0.1",
        "url": f"{url}/seen",
    }


def test_a_foreign_host_name_is_refused(dashboard: Callable[..., str]) -> None:
    url = dashboard(served_on="127.0.0.1", hosts=("Perf.Example.org",))
    port = url.rpartition(":")[2]
    for host, status in (
        (f"127.0.0.1:{port}", 200),
        (f"localhost:{port}", 200),
        ("[::1]:80", 200),
        ("warpwatch.localhost", 200),
        ("perf.example.org", 200),
        ("192.0.2.7", 200),
        ("evil.example", 400),
        (f"evil.example:{port}", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost.evil.example", 400),
        ("evillocalhost", 400),
    ):
        answer = requests.get(f"{url}/seen", headers={"Host": host}, timeout=60)
        assert answer.status_code == status, host
        if status == 400:
            assert "WARPWATCH_HOSTS" in answer.text
    refused = requests.get(f"{url}/api/nothing", headers={"Host": "evil.example"}, timeout=60)
    assert "The host name “evil.example” is not allowed here" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("host", "name"),
    [("A.example:80", "a.example"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("a.", "a"), ("", "")],
)
def test_a_host_is_read_without_its_port(host: str, name: str) -> None:
    assert host_name(host) == name


def test_too_many_requests_wait(dashboard: Callable[..., str]) -> None:
    url = dashboard(proxies=LOCAL, requests_per_minute=5)
    first, second = ({"X-Forwarded-For": f"203.0.113.{number}"} for number in (1, 2))
    answers = [requests.get(f"{url}/", headers=first, timeout=60) for _ in range(8)]
    # A minute may turn while they are asked; then five more are answered.
    assert [answer.status_code for answer in answers[:5]] == [200] * 5
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert 1 <= int(refused[0].headers["Retry-After"]) <= 60
    assert f"Try again in {refused[0].headers['Retry-After']} s" in refused[0].text
    assert "Content-Security-Policy" in refused[0].headers
    assert requests.get(f"{url}/", headers=second, timeout=60).status_code == 200
    assert requests.get(f"{url}/healthz", headers=first, timeout=60).status_code == 200
    assert requests.get(f"{url}/static/logo.svg", headers=first, timeout=60).status_code == 200


def test_uploads_have_a_limit_of_their_own_that_programs_can_read(dashboard: Callable[..., str]) -> None:
    url = dashboard(proxies=LOCAL, requests_per_minute=10)
    headers = {"X-Forwarded-For": "203.0.113.1", "Authorization": "Bearer guess"}
    answers = [requests.post(f"{url}/api/projects/demo/results", headers=headers, timeout=60) for _ in range(6)]
    assert [answer.status_code for answer in answers[:2]] == [401, 401]
    assert answers[-1].status_code == 429
    assert "More than 2 requests per minute" in answers[-1].json()["detail"]
    assert int(answers[-1].headers["Retry-After"]) >= 1


@pytest.mark.parametrize("page", ["roofline", "compare/row"])
def test_a_page_that_reads_much_has_a_lower_limit(dashboard: Callable[..., str], page: str) -> None:
    url = dashboard(proxies=LOCAL, requests_per_minute=10)
    headers = {"X-Forwarded-For": "203.0.113.1"}
    answers = [requests.get(f"{url}/nobody/{page}", headers=headers, timeout=60).status_code for _ in range(6)]
    assert answers[:2] == [404, 404]
    assert answers[-1] == 429
    assert requests.get(f"{url}/nobody/machines", headers=headers, timeout=60).status_code == 404


def test_this_machines_own_requests_are_not_counted(dashboard: Callable[..., str]) -> None:
    url = dashboard(served_on="127.0.0.1", requests_per_minute=1)
    assert {requests.get(f"{url}/", timeout=60).status_code for _ in range(5)} == {200}


def test_a_form_is_small(dashboard: Callable[..., str]) -> None:
    url = dashboard(served_on="127.0.0.1")
    browser, token = browser_with_token(url)
    large = {"csrf_token": token, "note": "x" * 2**21}
    for sent in ({"data": large}, {"files": {name: (None, said) for name, said in large.items()}}):
        assert browser.post(f"{url}/change", timeout=60, **sent).status_code == 413
    assert browser.post(f"{url}/change", data={"csrf_token": token, "note": "x" * 1000}, timeout=60).status_code == 200
