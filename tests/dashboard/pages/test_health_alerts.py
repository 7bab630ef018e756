"""What is wrong with the data itself stands above the regressions, as long as it is, and is triaged there."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import Tab, local_client, serving
from warpwatch.dashboard.model.alert import AlertKind, AlertState, HealthAlert, HealthFinding
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.alert_opening import open_health_alert
from warpwatch.dashboard.store.alert_updates import update_health_alert
from warpwatch.dashboard.store.queries.alerts import health_alerts
from warpwatch.dashboard.web.app import create_app


def test_open_ones_are_shown_and_narrowed_by_machine(tmp_path: Path, timed_history: Callable[..., Any]) -> None:
    path = str(tmp_path / "history.db")
    store = Store(path)
    results: AsvResults = timed_history([1.0, 1.0])
    results.load(store)
    get = create_app(Settings(database=path)).test_client().get
    assert "Health alerts" not in get("/demo/regressions").text
    silent = HealthFinding(
        kind=AlertKind.MISSING_DATA,
        subject="box",
        machine="box",
        kernel=None,
        summary="no results for <3> days",
        members=("box",),
        lines=(),
    )
    assert open_health_alert(store, "demo", silent, thread="t", messages={}, now_ms=1)
    assert not open_health_alert(store, "demo", silent, thread="u", messages={}, now_ms=2)
    page = get("/demo/regressions").text
    assert "no results for &lt;3&gt; days" in page
    assert 'href="/demo/machines/box"' in page
    assert "no results" not in get("/demo/regressions?machine=other").text
    (alert,) = health_alerts(store, "demo")
    assert update_health_alert(store, alert, None, messages={}, now_ms=3)
    assert not update_health_alert(store, alert, None, messages={}, now_ms=4)
    assert "no results" not in get("/demo/regressions").text


@dataclass
class Troubled:
    """A project whose machine is silent, served to one at this machine or to somebody elsewhere."""

    store: Store
    settings: Settings

    def client(self, access: AccessSettings | None = None) -> FlaskClient:
        app = create_app(Settings(database=self.settings.database, access=access or self.settings.access))
        return local_client(app)

    def alert(self) -> HealthAlert:
        (found,) = health_alerts(self.store, "demo")
        return found


@pytest.fixture
def troubled(tmp_path: Path, timed_history: Callable[..., Any]) -> Iterator[Troubled]:
    path = str(tmp_path / "history.db")
    store = Store(path)
    timed_history([1.0, 1.0]).load(store)
    silent = HealthFinding(
        kind=AlertKind.MISSING_DATA,
        subject="box",
        machine="box",
        kernel=None,
        summary="no results for 3 days",
        members=("box",),
        lines=("the newest is of Monday",),
    )
    assert open_health_alert(store, "demo", silent, thread="t", messages={}, now_ms=1)
    yield Troubled(store, Settings(database=path, access=AccessSettings(served_on="127.0.0.1")))
    store.close()


def form(client: FlaskClient, **said: str) -> dict[str, str]:
    """What the form of the alert sends."""
    page = client.get("/demo/regressions").text
    sent = dict(re.findall(r'type="hidden" name="(csrf_token|item)" value="([^"]*)"', page))
    return {**sent, "back": "/demo/regressions?state=all", **said}


def test_a_health_alert_is_triaged_without_a_script(troubled: Troubled) -> None:
    client = troubled.client()
    answer = client.post("/demo/regressions", data=form(client, state="acknowledged", note="on <it>", mine="1"))
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/demo/regressions?state=all#alert-1"
    page = client.get("/demo/regressions").text
    assert "1 alert set to “acknowledged”." in page
    assert "on &lt;it&gt;" in page
    assert troubled.alert().assignee == troubled.alert().events[-1].author is not None
    assert client.get("/demo/regressions/alert-1").headers["Location"] == "/demo/regressions#alert-1"
    client.post("/demo/regressions", data=form(client, state="expected"))
    assert "1 expected, or a false alarm" in client.get("/demo/regressions").text
    alerts = client.get("/api/projects/demo/alerts?kind=missing+data").get_json()["items"]
    assert [(each["state"], len(each["events"])) for each in alerts] == [("expected", 4)]


def test_a_reader_has_no_forms_of_health_alerts(troubled: Troubled) -> None:
    client = troubled.client(AccessSettings())
    page = client.get("/demo/regressions").text
    assert "no results for 3 days" in page
    assert 'method="post"' not in page
    assert client.post("/demo/regressions", data={"item": "alert-1 1", "state": "expected"}).status_code in {401, 403}
    assert troubled.alert().state is AlertState.OPEN


@pytest.mark.parametrize(
    ("said", "status", "sentence"),
    [
        ({"state": "expected", "csrf_token": "forged"}, 403, "has expired"),
        ({"state": "resolved"}, 400, "resolves by itself"),
        ({"state": "odd"}, 400, "There is no state “odd”"),
        ({"link": "javascript:alert(1)"}, 400, "A link must begin with http"),
        ({}, 400, "The form is empty"),
        ({"state": "expected", "item": "one"}, 409, "has changed since you saw it"),
        ({"state": "expected", "item": "alert-7 1"}, 409, "has changed since you saw it"),
        ({"state": "expected", "item": "alert-1 7"}, 409, "since you saw it"),
    ],
)
def test_invalid_decisions_on_a_health_alert_are_refused(
    troubled: Troubled, said: dict[str, str], status: int, sentence: str
) -> None:
    client = troubled.client()
    answer = client.post("/demo/regressions", data=form(client, **said))
    assert (answer.status_code, sentence in answer.text) == (status, True)
    assert troubled.alert().version == 1


def test_keys_triage_a_health_alert_like_a_card(troubled: Troubled, new_tab: Callable[..., Tab]) -> None:
    with serving(troubled.settings) as url:
        tab = new_tab()
        tab.open(f"{url}/demo/regressions")
        tab.page.keyboard.press("j")
        with tab.page.expect_navigation():
            tab.page.keyboard.press("a")
        tab.page.locator(".ww-standing-acknowledged").wait_for()
        assert troubled.alert().state is AlertState.ACKNOWLEDGED
        assert tab.complaints == []
