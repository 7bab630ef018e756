"""The classification of a change reaches people and programs: pages, their JSON, and an alert's message."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, update

from tests.asv_results import AsvResults
from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tests.stored import new_regressions
from warpwatch.ci.alerts.alert_content import regression_content
from warpwatch.dashboard.analysis.classify import classify_machines
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.web.app import create_app

Get = Callable[[str], Any]


@pytest.fixture
def classified(tmp_path: Path) -> tuple[Store, Get]:
    """A machine 5 % slower from commit 30 on, a kernel 8 % slower from 50 on, both again at 70; a spike at 40."""
    path = str(tmp_path / "history.db")
    store = Store(path)
    asv, rng = AsvResults(tmp_path / "results"), np.random.default_rng(4)
    history = Suite(asv, workloads=("w1", "w2"))
    for number in range(90):
        moved = {name: float(np.exp(rng.normal(0, 0.004))) for name in ("warpwatch", "eager", TRIAD, MATMUL)}
        machine = (1.05 if number >= 30 else 1.0) * (1.04 if number >= 70 else 1.0)
        own = (1.08 if number >= 50 else 1.0) * (1.1 if number >= 70 else 1.0) * (1.4 if number in {40, 41} else 1.0)
        moved = {name: factor * machine * (own if name == "warpwatch" else 1) for name, factor in moved.items()}
        history.commit(number, moved)
    asv.load(store)
    client = create_app(Settings(database=path)).test_client()
    return store, client.get


def test_pages_and_json_show_kind_share_and_remainder(classified: tuple[Store, Get]) -> None:
    store, get = classified
    key = queries.find_series(store, "demo", search="w1 warpwatch").series[0].key
    data = get(f"/api/projects/demo/series/{key}/history").json
    assert [change["kind"] for change in data["changes"]] == ["machine state", "step", "step"]
    moved, own, both = data["changes"]
    assert moved["control_share"]["control"] == "canaries"
    assert (moved["q_value"], moved["measure_again"]) == (None, None)
    assert own["without_machine"] is None
    assert own["q_value"] < 0.001
    assert both["without_machine"]["magnitude"] == pytest.approx(0.1, abs=0.01)
    assert both["magnitude"] == pytest.approx(0.144, abs=0.01)
    assert sum(both["posterior"].values()) > 0.94
    (spike,) = data["episodes"]
    assert spike["kind"] == "transient"
    assert spike["magnitude"] == pytest.approx(0.4, abs=0.02)
    page = get(f"/demo/series/{key}").text
    for text in ("Machine state", "the canaries show", "; without it +", "Episodes", "Transient"):
        assert text in page
    steps, states, spikes, nonsense = (
        get(f"/demo/regressions?kind={kind}").text for kind in ("step", "machine+state", "transient", "x")
    )
    assert (steps.count("+7.8 %"), steps.count("+5.4 %")) == (4, 0)  # in the table, taken apart, and as Markdown
    assert (states.count("+7.8 %"), states.count("+5.4 %")) == (0, 3)
    assert spikes.count("+40.1 %") == 3
    assert steps.count("<article") == nonsense.count("<article") == 2


def test_a_step_that_is_not_significant_is_called_so_on_every_page_and_by_the_api(
    classified: tuple[Store, Get],
) -> None:
    store, get = classified
    newest = select(func.max(schema.changepoint.c.place)).scalar_subquery()
    with store.write("demo") as connection:
        # chance alone would show as much in one series of five
        connection.execute(
            update(schema.changepoint).where(schema.changepoint.c.place == newest).values(p_adjusted=0.2)
        )
        connection.execute(update(schema.machine).values(findings=schema.machine.c.findings + 1))
    classify_machines(store)
    key = queries.find_series(store, "demo", search="w1 warpwatch").series[0].key
    (row, *_) = get("/api/projects/demo/overview").json["items"]
    assert (row["verdict"], row["change_kind"], row["change_q"]) == ("inconclusive", "not significant", 0.2)
    assert get(f"/api/projects/demo/series/{key}/history").json["changes"][-1]["kind"] == "not significant"
    assert "Not significant" in get("/demo/").text
    page = get(f"/demo/series/{key}").text
    (answer,) = re.findall(r'<div class="ww-answer">(.*?)</div>', page, re.DOTALL)
    assert "; not confirmed: false-discovery rate 20 %, too weak to report." in answer
    assert "+7.8 %" in answer  # the step before it
    assert "Measure both ends of the change in one session." in page
    assert get("/demo/regressions").text.count("<article") == 1
    doubtful = get("/demo/regressions?kind=not+significant").text
    assert "<h1>Insignificant steps for the worse</h1>" in doubtful
    assert doubtful.count("Not significant") == 2
    assert "inconclusive" in get(f"/demo/badge/verdict/{key}.svg").text


def test_an_alert_states_what_the_machine_did_meanwhile(classified: tuple[Store, Get]) -> None:
    store, _ = classified
    groups = new_regressions(store, "demo", recent_days=1000)
    assert [group.commit.position for group in groups] == [70, 50]
    message = regression_content(groups[0])
    assert "the canaries show" in message.text
    assert "; without that +" in message.text
    one = message.fields["regressions"][0]
    assert (one["kind"], one["control_share"]["control"]) == ("step", "canaries")
    assert one["without_machine"]["magnitude"] == pytest.approx(0.1, abs=0.01)
    assert "the canaries did not change" in regression_content(groups[1]).text
