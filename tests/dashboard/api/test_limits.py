"""Limits stated over HTTP, and what is judged by them from then on, on both kinds of database."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import serving
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.tokens import Scope, create_token

BENCH = "suite.Bench.track_latency"
QUIET = (1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.06)
STATED = {"threshold": 0.03, "source": "warpwatch.toml", "commit": "a" * 40, "committed": "2026-01-02T00:00:00Z"}
LOOSE = {
    **STATED,
    "commit": "b" * 40,
    "committed": "2026-01-03T00:00:00Z",
    "rules": [{"metric": "latency", "threshold": 0.1, "owners": ["ann@example.org"]}],
}


@dataclass
class Service:
    """A dashboard of one project, whose newest commit is 6 % slower."""

    url: str
    store: Store
    token: str

    def state(self, body: Any, token: str | None = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        address = f"{self.url}/api/projects/demo/limits"
        if isinstance(body, bytes):
            return requests.put(address, data=body, headers=headers, timeout=60)
        return requests.put(address, json=body, headers=headers, timeout=60)

    def limits(self) -> Any:
        return requests.get(f"{self.url}/api/projects/demo/limits", timeout=60).json()

    def compared(self, **asked: str) -> Any:
        newest, before = queries.commits(self.store, "demo", limit=2)
        asked = {"base": before.hash, "head": newest.hash, **asked}
        return requests.get(f"{self.url}/api/projects/demo/comparison", params=asked, timeout=60).json()


@pytest.fixture
def service(database: str, asv: AsvResults) -> Iterator[Service]:
    store = Store(database)
    asv.benchmark(BENCH)
    for number, wobble in enumerate(QUIET):
        asv.commit(number, {BENCH: asv.row([100e-6 * wobble], started_at=number + 1, spread=0.002)})
    asv.load(store)
    token = create_token(store, "demo", name="runner", now_ms=1)
    with serving(Settings(database=database, threshold=0.02)) as url:
        yield Service(url=url, store=store, token=token)
    store.close()


def test_a_comparison_uses_and_names_the_thresholds_that_the_project_states(service: Service) -> None:
    comparison = service.compared()
    assert (comparison["outcome"], comparison["threshold"], comparison["policy"]) == ("regressed", 0.02, None)
    answer = service.state(LOOSE)
    assert answer.status_code == 200, answer.text
    comparison = service.compared()
    assert comparison["outcome"] == "unchanged"
    assert comparison["threshold"] == 0.03
    assert comparison["policy"] == "warpwatch.toml of bbbbbbbb"
    (row,) = comparison["rows"]
    assert (row["verdict"], row["min_relative_change"], row["blocks"]) == ("unchanged", 0.1, True)
    above_all = service.compared(threshold="0.05")
    assert (above_all["outcome"], above_all["rows"][0]["min_relative_change"]) == ("regressed", 0.05)


def test_what_holds_can_be_read_and_is_the_newest_commits(service: Service) -> None:
    assert service.limits() == {"threshold": 0.02, "floor": None, "blocks": True, "rules": [], "stated": None}
    service.state(LOOSE)
    older = service.state({**STATED, "floor": "0.5 us", "blocks": False})
    assert older.status_code == 200
    assert older.json() == service.limits()
    held = service.limits()
    assert (held["threshold"], held["stated"]["commit"]) == (0.03, "b" * 40)
    assert [(rule["metric"], rule["threshold"], rule["owners"]) for rule in held["rules"]] == [(["latency"], 0.1, None)]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 422, "The body is invalid: the body: Invalid JSON"),
        (b"[]", 422, "should be an object"),
        (b'{"source": "\xff"}', 422, "Invalid JSON"),
        ({**STATED, "threshold": "0.02"}, 422, "threshold: Input should be a valid number"),
        ({**STATED, "rules": [{"metric": "a", "treshold": 0.1}]}, 422, "rules.0.treshold: Extra inputs"),
        ({**STATED, "rules": [{"metric": "a\0", "blocks": False}]}, 422, "rules.0.metric.0: String should match"),
        ({**STATED, "committed": "2026-01-01"}, 422, "committed"),
        ({**STATED, "rules": [{"metric": "*a" * 40_000, "blocks": False}]}, 413, "larger than 64 KiB"),
    ],
)
def test_a_statement_that_cannot_be_understood_is_refused_whole_and_what_held_holds(
    service: Service, body: Any, status: int, said: str
) -> None:
    service.state(LOOSE)
    held = service.limits()
    answer = service.state(body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert said in answer.json()["detail"]
    assert service.limits() == held


def test_only_a_token_for_uploads_to_the_project_states_limits(service: Service) -> None:
    reading = create_token(service.store, "demo", name="reader", scope=Scope.READ, now_ms=1)
    other = create_token(service.store, "other", name="runner", now_ms=1)
    for token, status in ((reading, 403), (other, 403), ("wrong", 401), ("", 401)):
        assert service.state(STATED, token).status_code == status
    assert service.limits()["stated"] is None


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_date_that_no_calendar_has_room_for_is_kept_as_one_that_it_has(service: Service, date: str) -> None:
    assert service.state({**STATED, "committed": date}).status_code == 200
    assert service.limits()["stated"]["source"] == "warpwatch.toml"
