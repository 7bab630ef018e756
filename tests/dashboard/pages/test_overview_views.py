"""The overview as list, charts and matrix."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import lxml.html
import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.browsing import Tab, faults
from warpwatch.dashboard.model.thresholds import LimitRule, StatedLimits
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import state_limits
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.figures.inline_charts import SMALL_CHART, small_chart

VIEWS = ("list", "charts", "matrix")


@pytest.fixture(scope="module")
def client(history_store: Settings) -> Iterator[FlaskClient]:
    app = create_app(history_store)
    yield app.test_client()
    app.extensions["store"].close()


def test_the_view_is_in_the_address_and_filters_keep_it(client: FlaskClient) -> None:
    for view in VIEWS:
        page = lxml.html.fromstring(client.get(f"/kernels/?view={view}&machine=runner-t4").text)
        (current,) = page.xpath('//nav[@aria-label="View of the kernels"]/a[@aria-current]/text()')
        assert current.lower() == view
        assert page.xpath('//form[@data-filters]//input[@name="view"]/@value') == ([] if view == "list" else [view])
        links = page.xpath('//nav[@aria-label="View of the kernels"]/a/@href')
        assert all("machine=runner-t4" in link for link in links)
    assert 'class="ww-line' in client.get("/kernels/?view=nonsense").text


def test_changes_are_by_metric_with_a_mark_a_word_and_an_arrow(client: FlaskClient) -> None:
    page = lxml.html.fromstring(client.get("/kernels/").text)
    chips = page.xpath('//span[contains(@class, "ww-chip-of")]')
    assert chips
    for chip in chips:
        text = re.sub(r"\s+", " ", chip.text_content()).strip()
        assert re.fullmatch(r"(slower|faster|larger|smaller|more|fewer): [\w. ,]+ [▲▼][\d.]+( %|×)( \d+ of \d+)?", text)
        is_worse = "ww-verdict-regressed" in chip.get("class")
        assert is_worse == text.startswith(("slower", "larger", "more"))
        assert chip.xpath("svg[@aria-hidden]")


def test_a_win_bar_is_as_long_as_the_share_that_is_ahead(client: FlaskClient) -> None:
    page = lxml.html.fromstring(client.get("/kernels/").text)
    bars = page.xpath('//tr[contains(@class, "ww-line")]//span[@class="ww-wins"]')
    assert bars
    for bar in bars:
        ahead, of = map(int, re.findall(r"\d+", bar.text_content()))
        lost, won = (float(each) for each in bar.xpath(".//rect/@width"))
        assert (won, lost) == (ahead, of)


def test_the_last_change_names_its_commit_and_cause(client: FlaskClient) -> None:
    page = lxml.html.fromstring(client.get("/kernels/").text)
    cells = page.xpath('//tr[contains(@class, "ww-line")]/td[@data-label="Last change"]')
    texts = [cell.text_content() for cell in cells if cell.xpath('.//a[@class="ww-hash"]')]
    assert any("machine code" in text for text in texts)


def test_what_is_the_same_in_all_rows_is_shown_once(client: FlaskClient) -> None:
    page = client.get("/kernels/").text
    assert "Newest data</a></th>" not in page  # as old as its machine's everywhere
    one = lxml.html.fromstring(client.get("/kernels/?machine=runner-t4").text)
    assert one.xpath('//td[@data-label="Machine"]') == []
    young = lxml.html.fromstring(client.get("/young/").text)
    assert young.xpath('//th[contains(., "Last change")]') == []


def test_kernels_out_of_means_are_marked_and_last(own: Settings) -> None:
    store = Store(own.database)
    stated = StatedLimits(
        source="warpwatch.toml",
        committed=datetime(2030, 1, 1, tzinfo=UTC),
        rules=(LimitRule(kernel=("flash_attention",), in_means=False),),
    )
    assert state_limits(store, "kernels", stated, now_ms=2**42)
    store.close()
    app = create_app(own)
    client = app.test_client()
    page = lxml.html.fromstring(client.get("/kernels/").text)
    names = [link.text_content() for link in page.xpath('//tr[contains(@class, "ww-line")]//a[@data-opens]')]
    assert set(names[-2:]) == {"flash_attention"}
    assert page.text_content().count("· not in means") == 2
    for view in ("charts", "matrix"):
        assert "not in means" in client.get(f"/kernels/?view={view}").text
    app.extensions["store"].close()


def test_a_chart_has_both_lines_and_the_matrix_a_link_for_each_machine(client: FlaskClient) -> None:
    charts = lxml.html.fromstring(client.get("/kernels/?view=charts").text)
    (chart, *_) = charts.xpath('//li[.//a[starts-with(normalize-space(), "rope")]]//svg[@role="img"]')
    for line in ("ours", "baseline"):
        assert chart.xpath(f'string(path[@class="ww-small-{line}"]/@d)').startswith("M")
    assert charts.xpath("//li//a/@href[starts-with(., '/kernels/kernel/rope?machine=')]")
    matrix = lxml.html.fromstring(client.get("/kernels/?view=matrix").text)
    assert [th.split("\n")[0] for th in matrix.xpath("//table//thead/tr/th[position() > 1]/text()")] == [
        "nvidia-h200",
        "runner-t4",
    ]
    links = matrix.xpath("//td/a[@class='ww-cell']/@href")
    assert {"/kernels/kernel/rope?machine=nvidia-h200", "/kernels/kernel/rope?machine=runner-t4"} <= set(links)


def test_a_small_chart_has_one_scale_for_both_lines() -> None:
    chart = small_chart((1.0, None, 2.0), (3.0, 3.0, 3.0))
    assert chart.ours.count("M") == 2  # a gap
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", chart.ours + chart.baseline)]
    assert heights[0] == max(heights)
    assert all(0 <= each <= SMALL_CHART.height for each in heights)
    assert chart.dot is not None
    assert chart.dot[0] == chart.across[-1]
    assert small_chart((), ()).ours == ""


@pytest.mark.parametrize("view", ["charts", "matrix"])
def test_views_fit_and_have_no_fault(view: str, address: str, new_tab: Callable[..., Tab]) -> None:
    for width in (1440, 390):
        tab = new_tab(width=width)
        tab.open(f"{address}/kernels/?view={view}")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(tab) == []
        assert tab.complaints == []
