"""Uploads over HTTP, on the server that `warpwatch serve` runs and a real socket."""

import http.client
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.asv_results import AsvResults
from tests.dashboard.importers.recorded_files import COMMIT, RECORDED
from tests.dashboard.pages.browsing import serving
from tests.stored import stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.import_path import import_path
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.tokens import create_token, revoke_token, tokens

NVBENCH = (RECORDED / "nvbench.json").read_bytes()
FACTS = f"commit={COMMIT}&date=2026-01-01&machine=lab"
BENCH = "suite.Bench.track_latency"


@dataclass
class Service:
    """A dashboard at an address, its store, and a token of the project "demo"."""

    url: str
    store: Store
    token: str

    def post(
        self, body: bytes, query: str = "", *, project: str = "demo", token: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """The status and the JSON of the answer."""
        url = f"{self.url}/api/projects/{project}/results?{query}"
        authorization = {"Authorization": f"Bearer {self.token if token is None else token}"}
        request = urllib.request.Request(url, data=body, headers=authorization | headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def _serve(database: str) -> Iterator[Service]:
    store = Store(database)
    token = create_token(store, "demo", name="runner", now_ms=1)
    with serving(Settings(database=database, upload_limit_mib=1)) as url:
        yield Service(url=url, store=store, token=token)
    store.close()


@pytest.fixture
def service(database: str) -> Iterator[Service]:
    """The service on both kinds of database, which takes a mebibyte."""
    yield from _serve(database)


@pytest.fixture
def sqlite_service(tmp_path: Path) -> Iterator[Service]:
    """The service on SQLite, for what does not depend on the database."""
    yield from _serve(f"sqlite:///{tmp_path / 'history.db'}")


def _packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder, ".")
    return buffer.getvalue()


def test_a_file_goes_in_and_again_changes_nothing(service: Service) -> None:
    status, response = service.post(NVBENCH, FACTS)
    assert (status, response["files"], response["unchanged"], response["set_aside"], response["warnings"]) == (
        200,
        1,
        0,
        [],
        [],
    )
    assert response["points"] > 0
    assert response["series_analysed"] > 0
    assert {row.series.machine for row in queries.overview(service.store, "demo")} == {
        "lab Quadro GV100",
        "lab Quadro GP100",
    }
    status, response = service.post(NVBENCH, FACTS)
    assert (status, response["unchanged"], response["points"]) == (200, 1, 0)
    assert tokens(service.store)[0].last_used is not None


def test_an_archive_of_asv_results_goes_in(service: Service, asv: AsvResults) -> None:
    asv.benchmark(BENCH)
    for number in range(3):
        asv.commit(number, {BENCH: asv.row([float(number)], started_at=number + 1)})
    (asv.folder / "box" / "broken.json").write_text("{")
    status, response = service.post(_packed(asv.folder))
    assert (status, response["files"], response["points"]) == (200, 3, 3)
    (line,) = response["set_aside"]
    assert line.startswith("upload: box/broken.json: not JSON")
    (series,) = queries.find_series(service.store, "demo").series
    history = stored_history(service.store, series.key)
    assert history is not None
    assert [point.value for point in history.points] == [0.0, 1.0, 2.0]


def test_uploads_at_once_add_everything_once(service: Service) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: service.post(NVBENCH, FACTS), range(4)))
    assert [status for status, _ in answers] == [200] * 4
    assert sorted(response["points"] for _, response in answers) == [0, 0, 0, 37]
    _, response = service.post(NVBENCH, FACTS)
    assert (response["unchanged"], response["series_analysed"]) == (1, 0)


def test_an_upload_leaves_other_projects_to_their_own_imports(sqlite_service: Service) -> None:
    import_path(sqlite_service.store, RECORDED / "pytest_benchmark.json", project="theirs")
    status, response = sqlite_service.post(NVBENCH, FACTS)
    assert (status, response["series_analysed"]) == (200, 37)
    assert analyse(sqlite_service.store) == 10


def test_without_a_token_nothing_is_taken(sqlite_service: Service) -> None:
    store = sqlite_service.store
    revoked = create_token(store, "demo", name="old", now_ms=1)
    revoke_token(store, tokens(store)[1].id, now_ms=2)
    for token, said in (("", "A token is required"), ("wrong", "unknown"), (revoked, "revoked")):
        status, response = sqlite_service.post(NVBENCH, FACTS, token=token)
        assert (status, response["title"]) == (401, "Unauthorized")
        assert said in response["detail"]
    request = urllib.request.Request(f"{sqlite_service.url}/api/projects/demo/results", data=b"{}", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert (refused.value.code, refused.value.headers["WWW-Authenticate"]) == (401, "Bearer realm=warpwatch")
    refused.value.close()
    assert queries.overview(store, "demo") == ()


def test_a_token_is_of_one_project(sqlite_service: Service) -> None:
    create_token(sqlite_service.store, "other/one", name="theirs", now_ms=1)
    for project in ("other~1one", "nobody"):
        status, response = sqlite_service.post(NVBENCH, FACTS, project=project)
        assert status == 403
        assert "not for uploads to" in response["detail"]
    other = create_token(sqlite_service.store, "other/one", name="theirs", now_ms=1)
    assert sqlite_service.post(NVBENCH, FACTS, project="other~1one", token=other)[0] == 200
    assert queries.overview(sqlite_service.store, "demo") == ()


def test_what_cannot_be_taken_is_refused_with_a_reason(sqlite_service: Service) -> None:
    cases = [
        (b"", "", 422, "The body is empty"),
        (b"hello", "", 415, "neither JSON nor"),
        (b'{"name": "x"}', "", 422, "no known format"),
        (NVBENCH, "", 422, "commit= in a URL"),
        (NVBENCH, "commit=v1&date=2026-01-01", 422, "expected a full hash"),
        (NVBENCH, f"commit={COMMIT}&date=soon", 422, "'soon' is no date"),
        (NVBENCH[:2000], FACTS, 422, "not JSON"),
        (b"\x1f\x8b" + bytes(20), "", 422, "broken archive"),
        (bytes(2**20 + 1), "", 413, "larger than 1 MiB"),
    ]
    for body, query, expected, said in cases:
        status, response = sqlite_service.post(body, query)
        assert (status, said in json.dumps(response)) == (expected, True), response
        assert "/tmp" not in json.dumps(response)
        assert response["detail"]
    assert queries.overview(sqlite_service.store, "demo") == ()


def test_a_bomb_is_refused(sqlite_service: Service, tmp_path: Path) -> None:
    (tmp_path / "bomb").mkdir()
    for number in range(9):
        (tmp_path / "bomb" / f"zeros{number}.json").write_bytes(bytes(2**20))
    status, response = sqlite_service.post(_packed(tmp_path / "bomb"))
    assert (status, "more than 8 MiB" in response["detail"]) == (413, True)


def test_a_body_without_a_content_length_has_the_same_limit(sqlite_service: Service) -> None:
    host = sqlite_service.url.removeprefix("http://")
    for size, expected in ((1, 415), (2**20 + 1, 413)):
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request(
            "POST",
            "/api/projects/demo/results",
            body=iter([b"x" * size]),
            encode_chunked=True,
            headers={"Authorization": f"Bearer {sqlite_service.token}", "Transfer-Encoding": "chunked"},
        )
        answer = connection.getresponse()
        assert answer.status == expected
        assert json.load(answer)["status"] == expected
        connection.close()


def test_other_methods_and_addresses_of_the_api_are_problems_in_json(sqlite_service: Service) -> None:
    for path, status in (("/api/projects/demo/results", 405), ("/api/nothing", 404)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{sqlite_service.url}{path}", timeout=60)
        assert refused.value.code == status
        assert json.load(refused.value)["detail"]
        refused.value.close()


def test_the_readmes_lines_work_with_the_real_command(tmp_path: Path, asv: AsvResults) -> None:
    """A token from `warpwatch token create`, the server of `warpwatch serve`, and curl as the README shows it."""
    asv.commit(1, {BENCH: asv.row([1.0])})
    (tmp_path / "out.json").write_bytes(NVBENCH)
    environment = {**os.environ, "WARPWATCH_DATABASE": f"sqlite:///{tmp_path / 'history.db'}", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "warpwatch.ci.cli"]
    made = subprocess.run(
        [*command, "token", "create", "--project", "demo", "--name", "runner"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    server = subprocess.Popen([*command, "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+(?=/)", server.stdout.readline())
        assert found
        readme = (Path(__file__).parents[3] / "dashboard" / "README.md").read_text()
        (lines,) = re.findall(r"```sh\n(# on the runner.*?)```", readme, re.DOTALL)
        script = lines.replace("https://HOST", found[0]).replace("PROJECT", "demo").replace(".asv/results", "results")
        runner = {"WARPWATCH_TOKEN": made.stdout.strip(), "PATH": os.environ["PATH"]}
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"],
            cwd=tmp_path,
            check=True,
        )
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=runner,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["files"] for line in done.stdout.splitlines()] == [1, 1]
    finally:
        server.terminate()
        server.wait(timeout=60)
