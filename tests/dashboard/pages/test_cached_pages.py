"""Cached parts of pages: the same bytes as computed, renewed by an import, never kept for invented names."""

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.asv_results import AsvResults, hash_of
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app

_NAMES = [f"suite.Bench{number}.track_latency" for number in range(10)]
_SLOWED = 20  # every series steps here
_COMMITS = 30


class History:
    """A project whose commits are imported one after the other, its pages, and what they had to compute."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(database=f"sqlite:///{folder / 'history.db'}")
        self.store = Store(self.settings.database)
        self._asv = AsvResults(folder / "results")
        for name in _NAMES:
            self._asv.benchmark(name)
        self.computed: list[Hashable] = []
        self.keys: set[Hashable] = set()
        self.extend(range(_COMMITS))

    def extend(self, commits: range) -> None:
        """Import further commits."""
        for number in commits:
            level = 1.0 + 0.2 * (number >= _SLOWED) + 0.001 * ((number * 7919) % 11)
            rows = {name: self._asv.row([level], started_at=number + 1) for name in _NAMES}
            self._asv.commit(number, rows)
        self._asv.load(self.store)

    def pages(self) -> dict[str, str]:
        """Addresses with cached parts."""
        key = queries.find_series(self.store, "demo").series[0].key
        return {
            "series": f"/demo/series/{key}",
            "compare": f"/demo/compare?base={hash_of(_SLOWED - 1)}&head={hash_of(_SLOWED)}",
            "commit": f"/demo/commit/{hash_of(_SLOWED)}",
            "regressions": "/demo/regressions",
            "series list": "/demo/series",
        }

    def client(self, monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
        """A reader of a new server, which notes what it computes."""
        app = create_app(self.settings)
        original: Callable[..., Any] = app.extensions["store"].cached

        def cached(project: str | None, key: Hashable, compute: Callable[[], Any], **more: Any) -> Any:
            def noted() -> Any:
                self.computed.append(key)
                return compute()

            self.keys.add(key)
            return original(project, key, noted, **more)

        monkeypatch.setattr(app.extensions["store"], "cached", cached)
        return app.test_client()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    opened = History(tmp_path)
    yield opened
    opened.store.close()


@pytest.mark.parametrize("name", ["series", "compare", "commit", "regressions", "series list"])
def test_a_page_is_the_same_from_the_cache_and_new_after_an_import(
    history: History, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, client = history.pages()[name], history.client(monkeypatch)
    first = client.get(path)
    assert first.status_code == 200
    assert history.computed
    history.computed.clear()
    assert client.get(path).data == first.data
    assert not history.computed
    history.extend(range(_COMMITS, _COMMITS + 5))
    renewed = client.get(path)
    assert history.computed
    assert renewed.data == create_app(history.settings).test_client().get(path).data
    assert renewed.data != first.data


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("series", "with=toaster&from=toaster&to=toaster&unit=toaster&x=toaster&find=toaster&run=toaster"),
        ("series", "page=77777"),
        ("compare", "kernel=toaster&machine=toaster&dtype=toaster&metric=toaster&q=toaster&min=77777"),
        ("compare", "verdict=toaster&page=77777"),
        ("commit", "q=toaster&kernel=toaster&page=77777&compiled=toaster"),
        ("regressions", "q=Bench1&page=1"),
        ("regressions", "q=toaster&machine=toaster&state=toaster&order=toaster&period=77777&kind=toaster"),
        ("series list", "q=toaster&machine=toaster&metric=toaster&implementation=toaster&page=77777"),
    ],
)
def test_an_address_with_invented_arguments_is_not_kept(
    history: History, monkeypatch: pytest.MonkeyPatch, name: str, query: str
) -> None:
    client, path = history.client(monkeypatch), history.pages()[name]
    assert client.get(path).status_code == 200
    of_the_page = set(history.keys)
    answer = client.get(f"{path}{'&' if '?' in path else '?'}{query}")
    assert answer.status_code in {200, 302, 404}
    assert not [key for key in history.keys if "toaster" in repr(key) or "77777" in repr(key) or "Bench1" in repr(key)]
    assert len(history.keys - of_the_page) <= 3  # parts of pages that any reader shares
    assert client.get(path).status_code == 200
