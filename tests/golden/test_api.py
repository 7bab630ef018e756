"""The OpenAPI document, and the JSON of every resource that the document lists with GET."""

import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

LONGEST_LIST = 5
QUERIES = {
    "/api/projects/{project}/comparison": "?base=0aec5df1&head=787295a5",
    "/api/projects/{project}/release": "?base=0aec5df1&head=787295a5",
    "/api/projects/{project}/series": "?q=flash_attention+warpwatch+track_latency",
}


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


@pytest.fixture
def document(client: FlaskClient) -> dict:
    return client.get("/api/openapi.json").json


def test_openapi_document(document: dict, snapshot: SnapshotAssertion) -> None:
    assert document == snapshot


def test_resources(client: FlaskClient, document: dict, snapshot: SnapshotAssertion) -> None:
    for path in _resources(document):
        address = path + QUERIES.get(path, "")
        for name, value in _parameters(client).items():
            address = address.replace(f"{{{name}}}", value)
        answer = client.get(address)
        content = _shortened(answer.json) if answer.is_json else answer.text
        assert {"status": answer.status, "content": content} == snapshot(name=re.sub(r"\W+", "_", path).strip("_"))


def _resources(document: dict) -> Iterator[str]:
    yield from (path for path, methods in document["paths"].items() if "get" in methods)


def _parameters(client: FlaskClient) -> dict[str, str]:
    listed = client.get("/api/projects/h200/series?q=flash_attention+warpwatch+track_latency").json
    return {"project": "h200", "commit": "787295a5", "key": listed["items"][0]["series"]["key"]}


def _shortened(value: object) -> object:
    """Floats to six digits, as far as the mathematics of all machines agree; of a long list its first elements."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [
            *map(_shortened, value[:LONGEST_LIST]),
            *([f"{len(value)} in all"] if len(value) > LONGEST_LIST else []),
        ]
    return value
