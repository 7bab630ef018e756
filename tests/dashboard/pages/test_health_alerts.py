"""What is wrong with the data itself stands above the regressions, as long as it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.asv_results import AsvResults
from warpwatch.dashboard.app import create_app
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.health_alerts import (
    HealthFinding,
    HealthKind,
    go_on_with_health,
    health_alerts,
    open_health_alert,
)


def test_open_ones_are_shown_and_narrowed_by_machine(tmp_path: Path, timed_history: Callable[..., Any]) -> None:
    path = str(tmp_path / "history.db")
    store = Store(path)
    results: AsvResults = timed_history([1.0, 1.0])
    results.load(store)
    get = create_app(Settings(database=path)).test_client().get
    assert "Troubles of the data" not in get("/demo/regressions").text
    silent = HealthFinding(
        kind=HealthKind.MISSING, subject="box", machine="box", kernel=None, says="no results for <3> days",
        members=("box",), lines=(),
    )  # fmt: skip
    assert open_health_alert(store, "demo", silent, thread="t", messages={}, now_ms=1)
    assert not open_health_alert(store, "demo", silent, thread="u", messages={}, now_ms=2)
    page = get("/demo/regressions").text
    assert "no results for &lt;3&gt; days" in page
    assert 'href="/demo/machines/box"' in page
    assert "no results" not in get("/demo/regressions?machine=other").text
    (alert,) = health_alerts(store, "demo")
    assert go_on_with_health(store, alert, None, messages={}, now_ms=3)
    assert not go_on_with_health(store, alert, None, messages={}, now_ms=4)
    assert "no results" not in get("/demo/regressions").text
