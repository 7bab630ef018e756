"""Lists as CSV are whole, however long, and pages link to them."""

import csv
import io
import itertools
import re
from html import unescape

import pytest
from flask.testing import FlaskClient

from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.api import operation
from warpwatch.dashboard.web.app import create_app


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("part", [7, 5000])
@pytest.mark.parametrize(
    "path", ["series", "series?machine=runner-t4", "commits", "overview", "regressions", "machines"]
)
def test_csv_without_a_limit_has_every_row(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch, path: str, part: int
) -> None:
    monkeypatch.setattr(operation, "_CHUNK", part)
    address = f"/api/projects/kernels/{path}"
    sign = "&" if "?" in path else "?"
    total = client.get(f"{address}{sign}limit=1").get_json()["total"]
    # Asked in other words for each part, as answers are kept.
    whole = client.get(f"{address}{sign}format=csv", headers={"Accept": f"text/csv;q=0.{part}"})
    assert whole.is_streamed or total <= part
    rows = _rows(whole.text)
    assert whole.status_code == 200
    assert len(rows) == total
    assert len({tuple(row.values()) for row in rows}) == total
    assert "Link" not in whole.headers
    assert whole.headers["Content-Type"].startswith("text/csv")
    assert "no-cache" in whole.headers["Cache-Control"]
    by_parts = [
        row
        for offset in range(0, total, 1000)
        for row in _rows(client.get(f"{address}{sign}format=csv&limit=1000&offset={offset}").text)
    ]
    assert rows == by_parts


def test_csv_with_a_limit_is_a_part_that_says_where_it_goes_on(client: FlaskClient) -> None:
    answer = client.get("/api/projects/kernels/series?format=csv&limit=10")
    assert len(_rows(answer.text)) == 10
    assert 'rel="next"' in answer.headers["Link"]


def test_pages_link_to_their_data_and_badges(client: FlaskClient, history_store: Settings) -> None:
    store = Store(history_store.database)
    newest, before = queries.commits(store, "kernels", limit=2)
    key = queries.find_series(store, "kernels", search="rope warpwatch track_latency").series[0].key
    store.close()
    wanted = {
        "": ("overview?format=csv", "badge/verdict.svg"),
        "series": ("series?format=csv",),
        f"series/{key}": (f"{key}/history?format=csv", f"badge/verdict/{key}.svg"),
        "commits": ("commits?format=csv",),
        f"commit/{newest.hash}": (f"{newest.hash}/values?format=csv",),
        "regressions": ("regressions?format=csv",),
        "machines": ("machines?format=csv", "canaries?format=csv"),
        "roofline": ("roofline?format=csv",),
        "kernel/rope": ("badge/verdict.svg?kernel=rope", "overview?machine="),
        f"compare?base={before.hash}&head={newest.hash}": ("format=markdown", "comparison?", "release?"),
        f"release?base={before.hash}&head={newest.hash}": ("format=markdown", "release?"),
    }
    for page, links in wanted.items():
        text = client.get(f"/kernels/{page}").text
        found = [
            unescape(link) for line in re.findall(r"ww-files.*", text) for link in re.findall(r'href="([^"]+)"', line)
        ]
        assert all(any(link in one for one in found) for link in links), (page, found)
        assert {client.get(link).status_code for link in found} == {200}, page
        embedded = re.findall(r'id="share-embed">\[!\[.*?\]\((.*?)\)\]\((.*?)\)<', text)
        assert bool(embedded) is any("/badge/" in link for link in found), page
        for address in map(unescape, itertools.chain(*embedded)):
            assert address.startswith("http://localhost/")
            assert client.get(address).status_code == 200, address
