"""The overview's table: a filter that finds something, counts that add up, and cells that hold what is in them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import Tab, a_client, faults, serving
from tests.dashboard.suite_results import SUITE, Suite
from warpwatch.dashboard.model.kernel_line import Typical
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.overview import RowState
from warpwatch.dashboard.model.quantities import change_range
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.web.app import create_app

MACHINES = ("newton-benchmark-runner-l40s", "newton-benchmark-runner-h100", "newton-benchmark-runner-rtx-pro-6000")
_DAY = 24  # commits are an hour apart
# Cells of the table whose content reaches beyond them.
_OVERFLOWING = """() => [...document.querySelectorAll('.ww-kernels :is(th, td)')].filter((cell) => {
  if (!cell.checkVisibility()) return false;
  const range = document.createRange();
  range.selectNodeContents(cell);
  const [inner, outer] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
  return inner.right > outer.right + 0.5 || inner.left < outer.left - 0.5;
}).map((cell) => cell.textContent)"""


@pytest.fixture(scope="module")
def many_machines(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Three machines with long names; one benchmark gets 37 times slower, another one a third faster."""
    folder = tmp_path_factory.mktemp("machines")
    settings = Settings(database=f"sqlite:///{folder / 'machines.db'}")
    results = AsvResults(folder / "results")
    sizes = ["'small'", "'large'"]
    results.benchmark("suite.Sort.track_latency", size=sizes)
    for machine in MACHINES:
        for number in range(50):
            steady = 1 + 0.001 * (number % 3)
            values = [
                0.000_123 * steady * (37.0 if number >= 40 else 1),
                1.23 * steady * (0.667 if number >= 40 else 1),
            ]
            row = results.row(values, [sizes], started_at=number + 1, spread=0.001)
            results.commit(number * _DAY, {"suite.Sort.track_latency": row}, machine=machine)
    store = Store(settings.database)
    results.load(store)
    store.close()
    return settings


def with_a_workload_that_the_machine_cannot_run(asv: AsvResults) -> None:
    """A history whose result files name a CPU workload without a value, which no context file describes."""
    history = Suite(asv, workloads=("cuda-w1",))
    for number in range(6):
        path = history.commit(number)
        data: dict[str, Any] = json.loads(path.read_text())
        row = data["results"][f"{SUITE}.track_latency"]
        row[1][0].append("'cpu-w2'")
        row[0] += [float("nan"), float("nan")]
        for column in row[7:11]:
            column += [None, None]
        path.write_text(json.dumps(data))
    names = ["'cuda-w1'", "'cpu-w2'"]
    asv.benchmark(f"{SUITE}.track_latency", workload=names, implementation=["'warpwatch'", "'eager'"])


def test_a_workload_that_the_machine_cannot_run_belongs_to_its_kernel(asv: AsvResults, tmp_path: Path) -> None:
    with_a_workload_that_the_machine_cannot_run(asv)
    settings = Settings(database=f"sqlite:///{tmp_path / 'own.db'}")
    store = Store(settings.database)
    asv.load(store)
    store.close()
    with a_client(settings) as client:
        page = client.get("/demo/?kernel=rope").text
        assert "cuda-w1" in page
        assert "cpu-w2" not in page
        assert "benchmarks.rope<" not in client.get("/demo/").text  # the same kernel by its module, which has no row
        assert "cpu-w2" in client.get("/demo/?kernel=rope&verdict=missing").text


def test_every_choice_of_the_kernel_filter_finds_something(history_store: Settings) -> None:
    with a_client(history_store) as client:
        page = client.get("/kernels/?sort=name").text
        choices = re.search(r'<select[^>]*id="kernel".*?</select>', page, re.DOTALL)
        if choices is None:
            pytest.fail("the overview has no kernel filter")
        kernels = re.findall(r"<option>([^<]+)</option>", choices[0])
        assert len(kernels) > 2
        for kernel in kernels:
            assert "ww-workload" in client.get("/kernels/", query_string={"kernel": kernel}).text, kernel


def test_rows_that_are_no_workload_are_named_where_they_are_counted(history_store: Settings) -> None:
    with a_client(history_store) as client:
        page = client.get("/kernels/?sort=name").text
    for line in re.findall(r'<tr class="ww-line.*?</tr>', page, re.DOTALL):
        if "ww-chip-of" in line:
            continue  # its counts are of one metric
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", line.partition('class="ww-column-spark"')[0]))
        workloads, implementations = (
            int(found[1]) if (found := re.search(rf"(\d+) {word}", text)) else 1
            for word in ("workloads?", "implementations")
        )
        listed = re.search(r"incl\. ((?:\d+ [a-z ]+,? ?)+)", text)
        others = sum(int(number) for number in re.findall(r"\d+", listed[1])) if listed else 0
        series = re.search(r"· (\d+) series", text)
        of = re.search(r"\d+ of (\d+)", text)
        if of is not None:
            assert int(of[1]) == (int(series[1]) if series else workloads * implementations + others), text


def test_cells_hold_what_is_in_them(many_machines: Settings, address: str, new_tab: Callable[..., Tab]) -> None:
    with serving(many_machines) as url:
        tab = new_tab(width=390)
        for page in (
            f"{url}/demo/?q=sort",
            f"{address}/kernels/?open=rope%40nvidia-h200&open=flash_attention%40runner-t4",
            f"{address}/young/?verdict=new",
        ):
            tab.open(page)
            assert tab.page.locator(".ww-workload").count() > 1
            for width in (390, 800, 1100, 1440, 1700):
                tab.resize(width)
                assert tab.page.evaluate(_OVERFLOWING) == [], (page, width)


def test_on_a_phone_machines_are_named_in_full_and_numbers_have_labels(
    many_machines: Settings, new_tab: Callable[..., Tab]
) -> None:
    with serving(many_machines) as url:
        tab = new_tab(width=390)
        tab.open(f"{url}/demo/")
        names = tab.page.locator("td.ww-in-machine")
        assert sorted(names.all_text_contents()) == sorted(MACHINES)
        for name in names.all():
            assert name.evaluate("cell => cell.scrollWidth <= cell.clientWidth")
        changes = tab.page.locator(".ww-line").first.locator(".ww-in-change")
        labels = [each.evaluate("cell => getComputedStyle(cell, '::before').content") for each in changes.all()]
        assert labels == ['"Since first run"']
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_both_ends_of_a_range_have_one_unit() -> None:
    assert change_range(-0.032, 0.18) == "−3.2 % to +18.0 %"
    assert change_range(-0.967, 1.27) == "0.0330× to 2.27×"
    assert change_range(1.5, 3.0) == "2.5× to 4×"
    assert change_range(0.0, 0.999) == "0.0 % to +99.9 %"


def test_a_change_too_small_to_matter_has_no_colour(history_store: Settings) -> None:
    app = create_app(history_store)
    latency = metric("latency", "seconds")
    with app.test_request_context("/"):
        ui, standing = (app.jinja_env.get_template(name).module for name in ("macros.html", "standing.html"))
        for value, colour in ((0.001, None), (-0.001, None), (0.019, None), (0.021, "worse"), (-0.021, "better")):
            for count in (1, 3):
                typical = Typical(value=value, low=-0.3, high=0.4, count=count)
                html = str(standing.changes(ui, typical, latency))  # type: ignore[attr-defined]
                assert re.findall(r"ww-(worse|better)", html) == ([colour] if colour else [])
            row = str(standing.steps(ui, value, latency, RowState.UNCHANGED))  # type: ignore[attr-defined]
            assert re.findall(r"ww-(worse|better)", row) == ([colour] if colour else [])
        cell = str(standing.steps(ui, 0.001, latency, RowState.REGRESSED))  # type: ignore[attr-defined]
        assert "ww-worse" in cell
    app.extensions["store"].close()


def test_the_address_of_an_opened_kernel_leads_to_it_in_any_order(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/")
    tab.page.get_by_role("button", name="rope").last.click()
    tab.page.wait_for_selector("tr.ww-workload")
    opened = tab.page.url
    assert "%25" not in opened
    assert re.fullmatch(r".*\?open=rope(@|%40)[\w-]+#rope@[\w-]+", opened)
    again = new_tab()
    again.open(opened.replace("?", "?sort=name&"))
    target = again.page.locator(":target")
    assert target.locator("[aria-expanded=true]").text_content() == "rope"
    assert target.locator("tr.ww-workload").count() == tab.page.locator("tr.ww-workload").count()


def test_the_implementations_of_a_workload_are_one_block_that_names_it_once(
    address: str, new_tab: Callable[..., Tab]
) -> None:
    for width in (1440, 390):
        tab = new_tab(width=width)
        tab.open(f"{address}/kernels/?open=rope%40nvidia-h200")
        names = tab.page.locator("tr.ww-workload .ww-name").all_inner_texts()
        assert [bool(re.match(r"cuda-", name)) for name in names[:4]] == [True, False, True, False]
        assert names[1].startswith("Triton")
        links = tab.page.locator("tr.ww-workload .ww-series")
        assert (links.nth(1).get_attribute("aria-label") or "").startswith("cuda-")
        assert links.nth(0).get_attribute("href") != links.nth(1).get_attribute("href")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(tab) == []
    with_one = tab.page.goto(f"{address}/kernels/?q=rope+triton+latency+h200&machine=nvidia-h200")
    assert with_one is not None
    first = tab.page.locator("tr.ww-workload .ww-series").first
    assert first.inner_text().startswith("cuda-")  # the only one that the filter leaves has its workload's name
