"""Behind real reverse proxies: nginx as README.md sets it up, and set up carelessly."""

import ipaddress
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from warpwatch.dashboard.access import peer_user
from warpwatch.dashboard.access.peer_user import Asker, asker
from warpwatch.dashboard.access_settings import ProxyLogin

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
def test_a_proxy_that_says_nothing_of_whom_it_asks_for_makes_nobody_an_admin(
    careless: str, dashboard: Callable[..., str]
) -> None:
    if os.geteuid() != 0 and careless != "as nginx comes":
        pytest.skip("only root can run nginx as another user, which is how it is told")
    url = dashboard(served_on="127.0.0.1")
    assert "Admin: may" in requests.get(f"{url}/account", timeout=PATIENCE_S).text
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
    named = _described(url.removeprefix("http://")).replace('X-Forwarded-User ""', "X-Forwarded-User ada")
    with nginx(named) as outside:
        account = requests.get(f"{outside}/account", headers={"Host": "perf.example.org"}, timeout=PATIENCE_S)
        assert "Admin: may" in account.text


def test_behind_nginx_as_described_nobody_chooses_groups_or_a_prefix(dashboard: Callable[..., str]) -> None:
    """Neither where their headers are named nor where they are not."""
    for groups_header in ("X-Forwarded-Groups", None):
        login = ProxyLogin(groups_header=groups_header)
        url = dashboard(login=login, proxies=LOCAL, public_url="https://perf.example.org", admins=("group:ops",))
        named = _described(url.removeprefix("http://")).replace('X-Forwarded-User ""', "X-Forwarded-User rita")
        with nginx(named) as outside:
            for prefix in ("//evil.example", "/bench", "https://evil.example"):
                headers = {"Host": "perf.example.org", "X-Forwarded-Groups": "ops", "X-Forwarded-Prefix": prefix}
                account = requests.get(f"{outside}/account", headers=headers, timeout=PATIENCE_S)
                assert "rita" in account.text
                assert "Admin: may" not in account.text
                assert prefix not in account.text
                seen = requests.get(f"{outside}/seen", headers=headers, timeout=PATIENCE_S).json()
                assert seen["url"] == "http://perf.example.org/seen"


def test_recipes_strip_what_a_client_says_of_itself() -> None:
    caddyfile = (README.parents[1] / "ci" / "recipes" / "dashboard" / "Caddyfile").read_text()
    for text in (caddyfile, README.read_text().partition("```caddy\n")[2].partition("```")[0]):
        for header in ("User", "Groups", "Prefix"):
            assert f"request_header -X-Forwarded-{header}\n" in text


@pytest.mark.parametrize("family", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("is_named", [True, False], ids=["by its name", "by the list of all"])
def test_the_user_at_the_other_end_is_told_by_the_system(
    family: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_named:
        monkeypatch.setattr(peer_user, "_users", lambda *_: ())
    else:
        monkeypatch.delattr(socket, "AF_NETLINK")
    is_six = family == "::1"
    served_on = "::1" if is_six else "127.0.0.1"
    with socket.create_server(
        ("::1" if is_six else "127.0.0.1", 0), family=socket.AF_INET6 if is_six else socket.AF_INET
    ) as server:
        port = server.getsockname()[1]
        client = socket.socket(socket.AF_INET6 if ":" in family else socket.AF_INET)
        client.connect((family, port))
        taken, peer = server.accept()
        environ = {"REMOTE_ADDR": peer[0], "REMOTE_PORT": str(peer[1]), "SERVER_PORT": str(port)}
        try:
            assert asker(environ, served_on, os.getuid()) is Asker.SAME_USER
            assert asker(environ, served_on, os.getuid() + 1) is Asker.ANOTHER
            assert asker(environ | {"REMOTE_PORT": "1"}, served_on, os.getuid()) is Asker.ANOTHER
            assert asker({}, served_on, os.getuid()) is Asker.UNKNOWN
        finally:
            client.close()
        # Linux tells no user of a socket that its process has closed: a number that is root's.
        assert asker(environ, served_on, os.getuid()) is Asker.ANOTHER
        taken.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_another_user_of_the_machine_is_not_at_the_dashboard(dashboard: Callable[..., str]) -> None:
    url = dashboard(served_on="127.0.0.1")
    ask = f"import urllib.request; print(urllib.request.urlopen('{url}/account').status)"
    own = [shutil.which("python3", path="/usr/bin") or sys.executable, "-c", ask]
    assert subprocess.run(own, capture_output=True, text=True, check=False).stdout == "200\n"
    other = subprocess.run(
        ["runuser", "-u", OTHER_USER, "--", *own], capture_output=True, text=True, check=False, cwd="/"
    )
    assert "HTTP Error 404" in other.stderr
