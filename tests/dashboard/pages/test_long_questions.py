"""What a stranger may write into an address: it costs no more than a page."""

from collections.abc import Hashable
from typing import Any

import pytest
from flask.testing import FlaskClient

from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app

MANY_WORDS = " ".join(["e"] * 3000)  # more than SQLite takes in one condition


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("", {}),
        ("series", {}),
        ("regressions", {}),
        ("regressions", {"kind": "drift"}),
        ("roofline", {}),
        ("commit/{slow_commit}", {}),
        ("search", {}),
        ("compare", {"head": "{slow_commit}"}),
    ],
)
def test_thousands_of_words_are_cut_to_what_a_search_can_mean(
    client: FlaskClient, addresses: dict[str, str], page: str, query: dict[str, str]
) -> None:
    asked = {name: value.format(**addresses) for name, value in query.items()}
    path = f"/kernels/{page.format(**addresses)}"
    answer = client.get(path, query_string={**asked, "q": MANY_WORDS}, follow_redirects=True)
    assert answer.status_code == 200
    assert MANY_WORDS not in answer.text


def test_so_are_the_words_for_a_series_to_overlay(client: FlaskClient, addresses: dict[str, str]) -> None:
    assert client.get(f"/kernels/series/{addresses['slowed']}", query_string={"find": MANY_WORDS}).status_code == 200


def test_invented_names_do_not_push_out_what_is_cached(
    history_store: Settings, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(history_store)
    keys = set()
    original = app.extensions["store"].cached

    def cached(project: str | None, key: Hashable, *arguments: Any, **more: Any) -> Any:
        keys.add(key)
        return original(project, key, *arguments, **more)

    monkeypatch.setattr(app.extensions["store"], "cached", cached)
    client = app.test_client()
    invented = {
        "/kernels/machines/{}": 404,
        "/kernels/compare?by=implementation&base={}&head=warpwatch": 404,
        "/kernels/compare?by=implementation&head={}&commit=" + addresses["slow_commit"]: 404,
        "/kernels/compare?by=machine&base={}&head={}": 404,
        "/api/projects/kernels/regressions?machine={}": 200,
        "/kernels/regressions?machine={}": 200,
        "/kernels/?machine={}": 200,
        "/kernels/series?machine={}": 200,
    }
    for address, status in invented.items():
        assert client.get(address.format("toaster", "toaster")).status_code == status, address
    assert keys
    assert not [key for key in keys if "toaster" in repr(key)]
