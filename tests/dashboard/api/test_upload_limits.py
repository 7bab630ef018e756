"""Uploads of few bytes that would cost much: refused with a sentence; and what known projects need goes in."""

import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard
from flask.testing import FlaskClient

from warpwatch.dashboard.importers import import_limits
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.tokens import create_token
from warpwatch.dashboard.web.app import create_app

COMMIT = "ab" * 20
BENCH = "suite.time_it"
Post = Callable[[bytes], tuple[int, Mapping[str, Any]]]
RUN = {"run_type": "iteration", "real_time": 1.0, "cpu_time": 1.0, "time_unit": "ns", "iterations": 1}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """A dashboard as it comes, whose temporary files are in a folder of the test's."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    app = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}"))
    yield app.test_client()
    assert list((tmp_path / "scratch").iterdir()) == []  # whatever was sent, nothing of it stays
    app.extensions["store"].close()


@pytest.fixture
def store(client: FlaskClient) -> Store:
    """The dashboard's store."""
    found: Store = client.application.extensions["store"]
    return found


@pytest.fixture
def post(client: FlaskClient, store: Store) -> Post:
    """Uploads a body; gives the status and the answer."""
    token = create_token(store, "demo", name="runner", now_ms=1)

    def send(body: bytes) -> tuple[int, Mapping[str, Any]]:
        headers = {"Authorization": f"Bearer {token}"}
        answer = client.post("/api/projects/demo/results", data=body, headers=headers)
        content: Mapping[str, Any] = answer.get_json()
        return answer.status_code, content

    return send


def _asv(results: Mapping[str, Any], **more: Any) -> bytes:
    head = {
        "commit_hash": COMMIT,
        "date": 1_700_000_000_000,
        "env_name": "env",
        "params": {"machine": "box"},
        "result_columns": ["result", "params"],
    }
    return json.dumps({**head, "results": results, **more}).encode()


def _google(*benchmarks: Mapping[str, Any], **context: str) -> bytes:
    facts = {"date": "2026-01-01T00:00:00+00:00", "host_name": "box", "commit": COMMIT, **context}
    return json.dumps({"context": facts, "benchmarks": benchmarks}).encode()


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return zstandard.compress(buffer.getvalue())


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _named(count: int) -> dict[str, Any]:
    return {f"suite.f{n}": [[1.0], []] for n in range(count)}


LONG = "BM_x" + "/1" * 100_000
BODIES = {
    "objects of JSON": (lambda: zstandard.compress(b'{"x":[' + b"{}," * 30_000_000 + b"{}]}"), "JSON values"),
    "objects in objects": (lambda: zstandard.compress(b'{"x":[' + b'{"a":{}},' * 9_000_000 + b"{}]}"), "JSON values"),
    "numbers of JSON": (lambda: zstandard.compress(b'{"x":[' + b"1," * 40_000_000 + b"1]}"), "JSON values"),
    "entries of an object": (
        lambda: zstandard.compress(b"{" + b'"a":1,' * 10_000_000 + b'"commit_hash":1}'),
        "JSON values",
    ),
    "combinations that one null stands for": (
        lambda: _asv({BENCH: [None, [_numbers(707)] * 2]}),
        "499,849 parameter combinations",
    ),
    "series": (lambda: _asv({BENCH: [None, [_numbers(224)] * 2]}), "more new series than this upload may add"),
    "benchmarks of asv": (lambda: zstandard.compress(_asv(_named(100_000))), "100,000 benchmarks"),
    "parameters of asv": (lambda: zstandard.compress(_asv({BENCH: [[1.0], [["1"]] * 100_000]})), "100,000 parameters"),
    "text of parameters": (
        lambda: zstandard.compress(_asv({BENCH: [None, [_numbers(2000), ["x" * 1_000_000]]]})),
        "the limit is 8,000",
    ),
    "columns of asv": (
        lambda: zstandard.compress(_asv({BENCH: [1.0]}, result_columns=["result", *_numbers(100_000)])),
        "100001 result_columns",
    ),
    "counters of Google Benchmark": (
        lambda: zstandard.compress(_google({**RUN, "name": "BM_x", **{f"c{n}": 1.0 for n in range(100_000)}})),
        "100,000 counters",
    ),
    "a name of Google Benchmark": (lambda: _google({**RUN, "name": LONG}), "a name of more than 2,000 characters"),
    "parameters of Google Benchmark": (
        lambda: _google({**RUN, "name": "BM_x" + "/1" * 900}),
        "900 parameters; the limit of one benchmark is 64",
    ),
    "benchmarks of Google Benchmark": (
        lambda: zstandard.compress(_google(*({**RUN, "name": f"BM_{n}"} for n in range(20_000)))),
        "10,000 benchmarks",
    ),
    "lines of a context": (
        lambda: _tar(
            {"box/abababab-env.json": _asv({BENCH: [[1.0], []]}), "box/abababab-env.context.jsonl": b"\n" * 60_000_000}
        ),
        "more than 200,000 records",
    ),
}


@pytest.mark.parametrize("what", BODIES)
def test_few_bytes_that_stand_for_much_are_refused_with_a_sentence(what: str, post: Post, store: Store) -> None:
    body, sentence = BODIES[what]
    sent = body()
    assert len(sent) < 1_000_000
    tracemalloc.start()
    status, response = post(sent)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status in {413, 422}
    assert sentence in response["detail"] + " ".join(response.get("set_aside", ()))
    assert most < 400 * 2**20
    assert queries.overview(store, "demo") == ()


def test_an_upload_may_add_so_many_series_and_a_project_have_so_many(
    post: Post, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_limits, "UPLOAD_NEW_SERIES", 100)
    monkeypatch.setattr(import_limits, "UPLOAD_PROJECT_SERIES", 150)

    def series(benchmark: str, count: int, commit: str = COMMIT) -> bytes:
        return _asv({benchmark: [[1.0] * count, [_numbers(count)]]}, commit_hash=commit)

    assert post(series("a.f", 101))[0] == 422
    assert post(series("a.f", 100))[0] == 200
    assert post(series("b.f", 51))[0] == 422
    assert post(series("b.f", 50))[0] == 200
    status, response = post(series("c.f", 1))
    assert (status, "more new series" in response["set_aside"][0]) == (422, True)
    assert post(series("a.f", 100, "cd" * 20))[0] == 200  # a full project goes on being measured
    assert queries.find_series(store, "demo").total == 150


def test_files_before_the_one_with_too_many_series_go_in(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_limits, "UPLOAD_NEW_SERIES", 10)
    files = {
        f"box/{n:08x}-env.json": _asv({f"b{n}.f": [[1.0] * 4, [_numbers(4)]]}, commit_hash=f"{n:040x}")
        for n in range(4)
    }
    status, response = post(_tar(files))
    assert (status, response["files"], response["points"], len(response["set_aside"])) == (200, 2, 8, 2)


def test_an_upload_may_hold_so_many_values_and_the_rest_goes_in_with_the_next(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_limits, "UPLOAD_VALUES", 10)
    files = {
        f"box/{n:08x}-env.json": _asv({BENCH: [[1.0] * 4, [_numbers(4)]]}, commit_hash=f"{n:040x}", date=n)
        for n in range(5)
    }
    status, response = post(_tar(files))
    assert (status, response["files"], response["points"], len(response["set_aside"])) == (200, 2, 8, 3)
    assert all("send the rest in another" in line for line in response["set_aside"])
    counts = [post(_tar(files))[1] for _ in range(2)]
    assert [(response["points"], len(response["set_aside"])) for response in counts] == [(8, 1), (4, 0)]


@pytest.mark.parametrize(
    "names",
    [
        ["d/" * depth + "f.json" for depth in range(300, 2000, 300)],
        [f"{n}/" + "d/" * 20 + "f.json" for n in range(1500)],
        [f"{n}.json" for n in range(30_000)],
    ],
    ids=["deep", "folders", "files"],
)
def test_archives_of_many_folders_and_files_leave_nothing_behind(names: list[str], post: Post) -> None:
    assert post(_tar(dict.fromkeys(names, b"")))[0] in {413, 422}


@pytest.mark.parametrize(
    "commit",
    ["main", ":/x", "<!here> @all [click](https://evil.example)", "abcdef", "a" * 65, "v1.2.3", "--output=x", ""],
)
def test_a_commit_is_a_hash(commit: str, post: Post, store: Store) -> None:
    pytest_benchmark = {
        "machine_info": {"node": "box"},
        "commit_info": {"id": commit},
        "datetime": "2026-01-01",
        "benchmarks": [{"name": "a", "stats": {"median": 1.0}}],
    }
    for body in (
        _asv({BENCH: [[1.0], []]}, commit_hash=commit),
        _google({**RUN, "name": "BM_x"}, commit=commit),
        json.dumps(pytest_benchmark).encode(),
    ):
        status, response = post(body)
        assert status == 422
        assert "commit" in response["detail"] + " ".join(response.get("set_aside", ()))
    assert queries.commits(store, "demo") == ()


@pytest.mark.parametrize("commit", ["abcdef0", "AB" * 20, "ab" * 32])
def test_a_hash_may_be_short_or_a_sha256(commit: str, post: Post, store: Store) -> None:
    for body in (_asv({BENCH: [[1.0], []]}, commit_hash=commit), _google({**RUN, "name": "BM_x"}, commit=commit)):
        assert post(body)[0] == 200
    assert [found.hash for found in queries.commits(store, "demo")] == [commit.lower()]
