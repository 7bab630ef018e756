"""Every address, also those added later: closed where reading is, and never changed by other sites."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.routing import AnyConverter, BaseConverter, IntegerConverter, Rule

from tests.dashboard.pages.browsing import local_client
from warpwatch.dashboard.settings import AccessSettings, ProxyLogin, Settings
from warpwatch.dashboard.web.app import create_app

OPEN = {"static", "health.show", "login.show", "login.local", "login.start", "login.callback", "login.end"}
BY_TOKEN_ALONE = {"api_results.add", "api_limits.replace"}
NOBODYS_METHODS = {"HEAD", "OPTIONS", "GET"}


@pytest.fixture
def closed(tmp_path: Path) -> Flask:
    """An application where reading requires a login, without the proxy that would supply user names."""
    access = AccessSettings(login=ProxyLogin(), reading_requires_login=True)
    return create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=access))


@pytest.fixture
def local(tmp_path: Path) -> Flask:
    """An application whose every request comes from its admin."""
    access = AccessSettings(served_on="127.0.0.1")
    return create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=access))


def _addresses(app: Flask) -> Iterator[tuple[Rule, str]]:
    adapter = app.url_map.bind("localhost")
    for rule in app.url_map.iter_rules():
        values = {name: _fitting(converter) for name, converter in rule._converters.items()}
        yield rule, adapter.build(rule.endpoint, values, method=min(rule.methods or {"GET"}))


def _fitting(converter: BaseConverter) -> object:
    """Some value that an address may have there."""
    if isinstance(converter, AnyConverter):
        return min(converter.items)
    return 1 if isinstance(converter, IntegerConverter) else "x" * 40


def test_nothing_is_read_where_reading_requires_a_login(closed: Flask) -> None:
    client = closed.test_client()
    asked = 0
    for rule, address in _addresses(closed):
        if rule.endpoint in OPEN or "GET" not in (rule.methods or ()):
            continue
        asked += 1
        answer = client.get(address, headers={"X-Forwarded-User": "admin"})
        assert answer.status_code == 401, address
        assert answer.headers["Cache-Control"] == "private, no-store", address
    assert asked > 10


def test_nothing_is_changed_without_our_token_or_a_programs(local: Flask) -> None:
    client = local_client(local)
    asked = 0
    for rule, address in _addresses(local):
        for method in (rule.methods or set()) - NOBODYS_METHODS:
            asked += 1
            answer = client.open(address, method=method, headers={"Origin": "https://evil.example"})
            wanted = 401 if rule.endpoint in BY_TOKEN_ALONE else 403
            assert answer.status_code == wanted, f"{method} {address}"
            assert client.open(address, method=method).status_code == wanted, f"{method} {address}"
    assert asked >= 4
