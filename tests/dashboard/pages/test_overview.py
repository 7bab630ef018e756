"""The overview as readers use it: machines that fall silent, kernels that open in their place, an order to choose."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.browsing import Tab
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.web.app import create_app


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


def _plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_a_machine_whose_data_came_hours_ago_is_on_time(client: FlaskClient) -> None:
    page = _plain(client.get("/kernels/").text)
    assert re.search(r"On time nvidia-h200 newest data \d hours ago , expected every 2 days", page)
    assert "Overdue" not in page


def test_a_machine_that_fell_silent_is_an_alert_above_everything(tmp_path: Path) -> None:
    machine = tmp_path / "results" / "box"
    machine.mkdir(parents=True)
    name = "suite.Sort.time_it"
    listed = {name: {"name": name, "param_names": [], "params": [], "type": "time", "unit": "seconds"}}
    (machine.parent / "benchmarks.json").write_text(json.dumps(listed))
    (machine / "machine.json").write_text(json.dumps({"machine": "box", "version": 1}))
    newest_ms = int((datetime.now(UTC) - timedelta(days=70)).timestamp() * 1000)
    for number in range(6):
        result = {
            "commit_hash": f"{number}" * 40,
            "env_name": "e",
            "date": newest_ms - (5 - number) * 604_800_000,
            "params": {},
            "version": 2,
            "result_columns": ["result", "params", "version"],
            "results": {name: [[0.001], [], "1"]},
        }
        (machine / f"{number}-e.json").write_text(json.dumps(result))
    settings = Settings(database=f"sqlite:///{tmp_path / 'silent.db'}")
    store = Store(settings.database)
    import_results(store, open_folder(machine.parent, project="silent"))
    analyse(store)
    store.close()
    page = _plain(create_app(settings).test_client().get("/silent/").text)
    assert re.search(r"Overdue box newest data 2 months ago , expected every 7 days, overdue after 21 days", page)
    assert page.index("Overdue") < page.index("Trend") < page.rindex("Sort")


def test_kernels_are_a_line_each_and_the_most_urgent_is_first(client: FlaskClient) -> None:
    page = client.get("/kernels/").text
    lines = re.findall(r'aria-expanded="false"[^>]*>(.*?)</a>', page)
    assert len(lines) == 8  # three operators, host overhead and compiled code apart, on two machines
    order = ["regressed", "invalid", "improved", "unchanged", "few-references", "new"]
    cells = [line.split('ww-column-spark"')[0] for line in page.split('<tr class="ww-line')[1:]]
    states = [min(re.findall(r"ww-verdict-([a-z-]+)", cell), key=order.index) for cell in cells]
    assert states[0] == "regressed"
    assert states == sorted(states, key=order.index)
    assert "ww-workload" not in page


def test_a_row_on_a_new_gpu_says_how_much_of_a_history_it_has(client: FlaskClient) -> None:
    page = client.get("/kernels/?q=nothing+like+it").text
    assert "No series matches these filters." in page
    assert "of 4 commits on this card" not in client.get("/kernels/?kernel=rope").text
    assert "1 of 4 commits" in client.get("/young/?verdict=new&q=rope+s2048").text


def test_the_order_is_in_the_address_and_its_heading_says_so(client: FlaskClient) -> None:
    page = client.get("/kernels/?sort=baseline").text
    assert 'aria-sort="ascending"' in page
    ratios = [float(x) for x in re.findall(r'ww-in-rival".*?ww-value">([\d.]+)×', page, re.DOTALL)]
    assert ratios == sorted(ratios)
    assert len(ratios) == 7  # three operators and the host's overhead, but for what one machine lacks
    for order in ("name", "month", "year", "light", "newest", "nonsense"):
        assert client.get(f"/kernels/?sort={order}").status_code == 200


def test_a_kernel_opens_in_its_place_and_the_address_restores_it(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/")
    button = tab.page.get_by_role("button", name="rope").first
    button.click()
    tab.page.wait_for_selector("tr.ww-workload")
    assert "open=" in tab.page.url
    assert "rope" in unquote(tab.page.url)
    opened = tab.page.locator("tr.ww-workload").count()
    assert tab.page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    again = new_tab()
    again.open(tab.page.url)
    assert again.page.locator("tr.ww-workload").count() == opened > 0
    again.page.locator("[data-opens][aria-expanded=true]").click()
    again.page.locator("tr.ww-workload").first.wait_for(state="detached")
    assert "open=" not in again.page.url
    assert tab.complaints == again.complaints == []


def test_new_data_is_on_the_page_at_once(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'new.db'}")
    reader = create_app(settings).test_client()
    machine = tmp_path / "results" / "box"
    machine.mkdir(parents=True)
    name = "suite.Sort.time_it"
    listed = {name: {"name": name, "param_names": [], "params": [], "type": "time", "unit": "seconds"}}
    (machine.parent / "benchmarks.json").write_text(json.dumps(listed))
    (machine / "machine.json").write_text(json.dumps({"machine": "box", "version": 1}))
    store = Store(settings.database)  # another's, as that of an import in another process
    for number, value in enumerate((0.001, 0.002)):
        result = {
            "commit_hash": f"{number}" * 40,
            "env_name": "e",
            "date": 1_700_000_000_000 + number * 1000,
            "params": {},
            "version": 2,
            "result_columns": ["result", "params", "version"],
            "results": {name: [[value], [], "1"]},
        }
        (machine / f"{number}-e.json").write_text(json.dumps(result))
        import_results(store, open_folder(machine.parent, project="new"))
        analyse(store)
        assert f"{number + 1}.00 ms" in reader.get("/new/").text
    store.close()
