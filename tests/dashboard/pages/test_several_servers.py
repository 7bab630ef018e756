"""Two servers of one store: what one writes, or an import, the other shows with its next answer."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.asv_results import AsvResults
from tests.commands import run_command
from tests.dashboard.pages.test_serving import COMMAND

PATIENCE_S = 60
AS_ADA = {"X-Forwarded-User": "ada"}  # as the proxy in front names its user


@pytest.fixture
def servers(database: str) -> Iterator[tuple[str, str]]:
    """The addresses of two, which have a key in common as behind one proxy."""
    environment = {
        **os.environ,
        "WARPWATCH_DATABASE": database,
        "WARPWATCH_SECRET_KEY": "k" * 64,
        "WARPWATCH_LOGIN": "proxy",
        "WARPWATCH_PROXIES": "127.0.0.1",
        "WARPWATCH_ADMINS": "ada",
        "PYTHONUNBUFFERED": "1",
    }
    with ExitStack() as stack:
        addresses = []
        for _ in range(2):
            process = stack.enter_context(
                subprocess.Popen([*COMMAND, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment)
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://[^/\s]+", line)
            assert found, line
            addresses.append(found[0])
        yield addresses[0], addresses[1]


def _import(results: Path, database: str) -> None:
    done = run_command("import", results, "--project", "p", "--database", database, folder=results)
    assert done.returncode == 0, done.stderr


def test_each_shows_what_the_other_wrote_and_what_was_imported(
    servers: tuple[str, str], database: str, asv: AsvResults
) -> None:
    asv.benchmark("suite.Time.time_it")
    _record(asv, range(20), 1e-3)
    _import(asv.folder, database)
    for each in servers:
        assert "No regressions" in _get(f"{each}/p/regressions").text
        assert _get(f"{each}/p/").ok
    _record(asv, range(20, 40), 1.3e-3)
    _import(asv.folder, database)
    for each in servers:
        assert _get(f"{each}/api/projects/p/regressions").json()["total"] == 1
        assert "+30" in _get(f"{each}/p/regressions").text
        assert "egressed" in _get(f"{each}/p/").text

    one = requests.Session()
    one.headers.update(AS_ADA)
    page = one.get(f"{servers[0]}/p/regressions", timeout=PATIENCE_S)
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    item = re.search(r'type="hidden" name="item" value="([^"]+)"', page.text)
    assert token
    assert item
    decision = {"csrf_token": token[1], "item": item[1], "state": "acknowledged", "note": "seen by the other"}
    # A proxy in front may send the form of one to the other.
    done = one.post(f"{servers[1]}/p/regressions", data=decision, timeout=PATIENCE_S)
    assert done.status_code == 200, done.text
    for each in servers:
        assert "seen by the other" in _get(f"{each}/p/regressions?state=acknowledged").text
        assert [alert["state"] for alert in _get(f"{each}/api/projects/p/alerts").json()["items"]] == ["acknowledged"]


def _record(asv: AsvResults, commits: range, level_s: float) -> None:
    for number in commits:
        rows = {"suite.Time.time_it": asv.row([level_s * (1 + number % 3 / 1000)], started_at=number * 1000 + 1)}
        asv.commit(number, rows)


def _get(url: str) -> requests.Response:
    return requests.get(url, headers=AS_ADA, timeout=PATIENCE_S)
