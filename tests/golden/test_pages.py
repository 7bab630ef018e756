"""The text, links and figures of every page, for each project from its overview on."""

import json
import re
from collections import Counter, deque
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import lxml.html
import pytest
from flask.testing import FlaskClient
from inscriptis import get_text
from syrupy.assertion import SnapshotAssertion
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

PROJECTS = ("h200", "kernels")
PAGES_OF_A_ROUTE = 3  # each with other query parameters
NOT_PAGES = ("static", "api_", "login", "health.")


def test_pages(client: FlaskClient, snapshot: SnapshotAssertion) -> None:
    """One snapshot a page; `/` links to no single project's pages, so each project is crawled from its own overview."""
    seen = {"/": _text(client.get("/"))}
    for project in PROJECTS:
        latencies = f"/{project}/series/?q=flash_attention+warpwatch+track_latency"
        seen |= _crawl(client, f"/{project}/", latencies)
    for address, text in seen.items():
        assert text == snapshot(name=_file_name(address))
    assert "\n".join(seen) == snapshot(name="addresses")


def _crawl(client: FlaskClient, *starts: str) -> dict[str, str]:
    """Texts by address, in the order in which links lead there."""
    texts: dict[str, str] = {}
    kinds: set[tuple[str, ...]] = set()
    routes: Counter[str] = Counter()
    queue, known = deque(starts), set(starts)
    while queue:
        address = queue.popleft()
        kind = _kind(client, address)
        if kind is None or kind in kinds or routes[kind[0]] == PAGES_OF_A_ROUTE:
            continue
        kinds.add(kind)
        routes[kind[0]] += 1
        answer = client.get(address)
        texts[address] = _text(answer)
        for link in _links(answer, address):
            if link not in known and link.startswith(starts[0]):
                known.add(link)
                queue.append(link)
    return texts


def _kind(client: FlaskClient, address: str) -> tuple[str, ...] | None:
    """The route and the names of its parameters; None for what is no page."""
    parts = urlsplit(address)
    try:
        endpoint, _ = client.application.url_map.bind("localhost").match(parts.path)
    except HTTPException:
        return None
    if endpoint.startswith(NOT_PAGES):
        return None
    return (endpoint, *sorted({name for name, _ in parse_qsl(parts.query)}))


def _links(page: TestResponse, address: str) -> list[str]:
    if page.mimetype != "text/html" or not page.text:
        return []
    document = lxml.html.fromstring(page.text)
    named = [
        element.get(name) for element in document.iter() for name in ("href", "data-figure-url") if element.get(name)
    ]
    found = [urljoin(address, link) for link in named]
    return [link.split("#")[0] for link in found if link.startswith("/")]


def _text(answer: TestResponse) -> str:
    """What a reader sees: status, title, text, links and, as JSON, the figures' data with rounded numbers."""
    if answer.mimetype != "text/html":
        body = json.dumps(_rounded(answer.json), indent=1) if answer.is_json else answer.text
        return f"{answer.status}\n{body}"
    document = lxml.html.fromstring(answer.text)
    title = document.findtext(".//title")
    links = [f"{_words(element)} -> {element.get('href')}" for element in document.iterfind(".//main//a")]
    return "\n".join([answer.status, f"title: {title}", get_text(answer.text), "links:", *dict.fromkeys(links)])


def _words(element: Any) -> str:
    return re.sub(r"\s+", " ", element.text_content()).strip()


def _rounded(value: Any) -> Any:
    """Six digits: as far as the mathematics of all machines agree."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _file_name(address: str) -> str:
    short = re.sub(r"([0-9a-f]{8})[0-9a-f]{8,}", r"\1", address.strip("/"))
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", short) or "start"


@pytest.mark.parametrize("address", ["/nobody/", "/kernels/series/feedfeedfeedfeed", "/kernels/commit/feedfeed"])
def test_error_page(client: FlaskClient, snapshot: SnapshotAssertion, address: str) -> None:
    assert _text(client.get(address)) == snapshot
