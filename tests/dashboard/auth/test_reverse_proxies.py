"""Behind real reverse proxies: nginx as README.md sets it up, and set up carelessly."""

import ipaddress
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.dashboard.pages.browsing import local_cookies
from warpwatch.dashboard.settings import ProxyLogin

README = Path(__file__).resolve().parents[3] / "dashboard" / "README.md"
LOCAL = (ipaddress.ip_network("127.0.0.1/32"),)
OTHER_USER = "nobody"
PATIENCE_S = 30
CARELESS = {
    "as nginx comes": "proxy_pass http://{upstream};",
    "HTTP/1.1": "proxy_pass http://{upstream}; proxy_http_version 1.1;",
    "HTTP/1.1, kept alive": 'proxy_pass http://{upstream}; proxy_http_version 1.1; proxy_set_header Connection "";',
    "HTTP/1.1 and our own name": "proxy_pass http://{upstream}; proxy_http_version 1.1;"
    " proxy_set_header Host localhost;",
}


@contextmanager
def nginx(location: str) -> Iterator[str]:
    """nginx with this inside of `location /`; gives its address. Its workers run as another user where that can be."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no nginx here")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="warpwatch-nginx-", dir="/tmp"))
    folder.chmod(0o755)
    user = f"user {OTHER_USER} {_group()};" if os.geteuid() == 0 else ""
    kept = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/errors;"
        f"events {{}} http {{ access_log off; {kept}"
        f"server {{ listen 127.0.0.1:{port}; server_name _; location / {{ {location} }} }} }}"
    )
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "errors").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)
        shutil.rmtree(folder)


def _group() -> str:
    import grp

    return grp.getgrgid(pwd.getpwnam(OTHER_USER).pw_gid).gr_name


def _described(upstream: str) -> str:
    """What README.md says of nginx, with our server's address in it."""
    inside = README.read_text().partition("```nginx\n")[2].partition("```")[0]
    inside = inside.partition("\n")[2].rpartition("}")[0]
    assert "127.0.0.1:8321" in inside
    return inside.replace("127.0.0.1:8321", upstream)


@pytest.mark.parametrize("careless", CARELESS)
def test_a_proxy_that_names_no_user_makes_no_client_an_admin(careless: str, dashboard: Callable[..., str]) -> None:
    url = dashboard(served_on="127.0.0.1")
    account = requests.get(f"{url}/account", cookies=local_cookies(url), timeout=PATIENCE_S)
    assert "Admin: may" in account.text
    with nginx(CARELESS[careless].format(upstream=url.removeprefix("http://"))) as outside:
        assert requests.get(f"{outside}/", timeout=PATIENCE_S).status_code == 200
        for _ in range(3):  # over a connection that is kept, too
            assert requests.get(f"{outside}/account", timeout=PATIENCE_S).status_code == 404


def test_behind_nginx_as_described_people_have_their_own_addresses_and_no_name_of_their_choice(
    dashboard: Callable[..., str],
) -> None:
    url = dashboard(login=ProxyLogin(), proxies=LOCAL, public_url="https://perf.example.org", admins=("ada",))
    with nginx(_described(url.removeprefix("http://"))) as outside:
        headers = {"Host": "perf.example.org", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-User": "ada"}
        seen = requests.get(f"{outside}/seen", headers=headers, timeout=PATIENCE_S)
        assert seen.json() == {
            "address": "127.0.0.1",
            "url": "http://perf.example.org/seen",
        }  # of nginx, not the header
        account = requests.get(f"{outside}/account", headers=headers, timeout=PATIENCE_S)
        assert "Admin: may" not in account.text
        large = requests.post(f"{outside}/change", headers=headers, data=b"x" * 2**20 * 2, timeout=PATIENCE_S)
        assert large.status_code in {403, 413}
        assert requests.get(f"{outside}/seen", headers={"Host": "evil.example"}, timeout=60).status_code == 400
    configured = _described(url.removeprefix("http://")).replace('X-Forwarded-User ""', "X-Forwarded-User ada")
    with nginx(configured) as outside:
        account = requests.get(f"{outside}/account", headers={"Host": "perf.example.org"}, timeout=PATIENCE_S)
        assert "Admin: may" in account.text


def test_behind_nginx_as_described_a_client_cannot_choose_groups_or_a_prefix(dashboard: Callable[..., str]) -> None:
    """Neither where their headers are named nor where they are not."""
    for groups_header in ("X-Forwarded-Groups", None):
        login = ProxyLogin(groups_header=groups_header)
        url = dashboard(login=login, proxies=LOCAL, public_url="https://perf.example.org", admins=("group:ops",))
        configured = _described(url.removeprefix("http://")).replace('X-Forwarded-User ""', "X-Forwarded-User rita")
        with nginx(configured) as outside:
            for prefix in ("//evil.example", "/bench", "https://evil.example"):
                headers = {"Host": "perf.example.org", "X-Forwarded-Groups": "ops", "X-Forwarded-Prefix": prefix}
                account = requests.get(f"{outside}/account", headers=headers, timeout=PATIENCE_S)
                assert "rita" in account.text
                assert "Admin: may" not in account.text
                assert prefix not in account.text
                seen = requests.get(f"{outside}/seen", headers=headers, timeout=PATIENCE_S).json()
                assert seen["url"] == "http://perf.example.org/seen"


def test_recipes_strip_identity_headers_of_the_client() -> None:
    caddyfile = (README.parents[1] / "ci" / "recipes" / "dashboard" / "Caddyfile").read_text()
    for text in (caddyfile, README.read_text().partition("```caddy\n")[2].partition("```")[0]):
        for header in ("User", "Groups", "Prefix"):
            assert f"request_header -X-Forwarded-{header}\n" in text
