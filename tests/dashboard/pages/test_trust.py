"""One machine's page: what it says of data, false alarms, smallest changes, conditions and versions, and what not."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.browsing import HOSTILE, Tab
from tests.dashboard.pages.whole_history import as_page, history_figure
from tests.stored import stored_history
from warpwatch.dashboard.analysis.trust import RUNS, trust
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.figures.history_view import HistoryView
from warpwatch.dashboard.web.figures.machine import MAX_CHANGE, conditions_figure, detectable_figure


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


def _plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_a_machine_shows_data_alarms_smallest_changes_conditions_and_versions(client: FlaskClient) -> None:
    page = _plain(client.get("/kernels/machines/nvidia-h200").text)
    assert "On time" in page
    assert re.search(r"Typical interval 2 days", page)
    assert re.search(r"Failed measurements [\d.]+ % [\d,]+ of [\d,]+ measurements", page)
    assert "throttled: the SM clock fell to … GHz during … of … samples" in page
    assert re.search(r"further apart like in a history \d+ of \d+ comparisons 95 %: [\d.]+ % to [\d.]+ %", page)
    assert re.search(r"in 90 % of the series \+[\d.]+ % \+[\d.]+ % \+[\d.]+ %", page)
    assert "power cap" in page
    assert re.search(r"GPU-c0ffee42 new 580.65.06 13.0 2.13.0 9.19 3.6.0 0.3.0 3.11.9 700 W", page)
    assert re.search(r"\d+ measurements within", page)


def test_unknown_figures_are_shown_with_their_reason(client: FlaskClient) -> None:
    listing = client.get("/").text
    (hostile,) = {link for link in re.findall(r'href="(/[^"]+/)"', listing) if "img" in link}
    machines = client.get(f"{hostile}machines").text
    (link,) = set(re.findall(rf'href="({re.escape(hostile)}machines/[^"]+)"', machines))
    page = client.get(link)
    assert page.status_code == 200
    assert HOSTILE not in page.text
    said = _plain(page.text)
    for sentence in (
        "Unknown: no code was measured twice",
        "the results have no context file",
        "No canaries",
        "Driver and libraries are unknown",
        "unknown without a repository",
        "Archived",
    ):
        assert sentence in said, sentence


def test_a_machine_that_is_not_there_is_a_404_with_a_sentence(client: FlaskClient) -> None:
    answer = client.get("/kernels/machines/toaster")
    assert answer.status_code == 404
    assert "no machine named “toaster”" in answer.text


def test_the_machines_are_listed_with_whether_their_data_comes(client: FlaskClient) -> None:
    page = client.get("/kernels/machines").text
    assert page.count("On time") == 4  # in the table, and each machine's section
    assert 'href="/kernels/machines/runner-t4"' in page


def test_the_figures_agree_with_the_records(history_store: Settings) -> None:
    store = Store(history_store.database)
    history = queries.machine_history(store, "kernels", "nvidia-h200")
    runs = queries.conditions(store, "kernels", "nvidia-h200")
    store.close()
    assert history is not None
    canaries = [each for each in history.series if each.series.is_control]
    made = conditions_figure(runs, canaries)
    assert made is not None
    figure = as_page(made)
    names = {trace["name"] for trace in figure["data"]}
    assert {"SM clock", "median", "highest", "throttled", "canary triad", "canary matmul"} == names
    clock = next(trace for trace in figure["data"] if trace["name"] == "SM clock")
    assert clock["y"] == pytest.approx([run.clock_hz / 1e6 for run in runs if run.clock_hz])
    axes: dict[str, Any] = {name: each for name, each in figure["layout"].items() if name.startswith("yaxis")}
    domains = sorted(axis["domain"] for axis in axes.values())
    assert all(below[1] < above[0] for below, above in itertools.pairwise(domains))
    assert conditions_figure((), ()) is None
    detectable = trust(history, threshold=0.02).detectable
    for place, line in enumerate(detectable_figure(detectable).data):
        changes = [100 * min(each.changes[place], MAX_CHANGE) for each in detectable]
        assert (line["y"][0], line["y"][-1]) == (pytest.approx(min(changes)), pytest.approx(max(changes)))
        assert line["name"].startswith(f"{RUNS[place]} run")


def test_the_worst_series_sort_by_any_column(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/machines/nvidia-h200")
    column = tab.page.locator(".ww-worst tbody tr td:nth-child(2)")
    tab.page.get_by_role("button", name="Level").click()
    levels = [float(value) for value in column.evaluate_all("cells => cells.map(cell => cell.dataset.value)")]
    assert levels == sorted(levels)
    assert len(levels) > 5
    assert tab.complaints == []


def test_a_canary_looks_alike_on_a_series_page_and_on_its_machines_page(
    history_store: Settings, addresses: dict[str, str]
) -> None:
    store = Store(history_store.database)
    history, machine = (
        stored_history(store, addresses["profiled"]),
        queries.machine_history(store, "kernels", "nvidia-h200"),
    )
    runs = queries.conditions(store, "kernels", "nvidia-h200")
    assert history is not None and machine is not None  # noqa: PT018
    canaries = [each for each in machine.series if each.series.is_control and each.series.metric.is_latency]
    baseline_figure = history_figure(history, HistoryView())
    store.close()
    looks = []
    for figure in (baseline_figure, *(as_page(conditions_figure(runs, some)) for some in (canaries, canaries[::-1]))):
        lines = [trace for trace in figure["data"] if trace.get("name", "").startswith("canary")]
        looks.append({each["name"]: (each["line"]["color"], each["marker"]["symbol"]) for each in lines})
        assert all(each.get("showlegend", True) for each in lines)
        assert figure["layout"].get("showlegend", True)
    assert len(looks[0]) == 2
    assert looks[0] == looks[1] == looks[2]
