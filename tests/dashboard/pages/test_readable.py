"""Readability: no names squeezed to a letter, no box too small for its words, no fact stated in two ways."""

import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.browsing import Tab
from warpwatch.dashboard.model.quantities import quantity, throughput
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.api.openapi_document import _kind
from warpwatch.dashboard.web.app import create_app

# Values of which one line holds the number and the next one the unit; sentences that results bring are their authors'.
_BROKEN_VALUES = r"""() => {
  const found = [];
  const value = /[\d.,]+ (?:[kMGTmµnp]?(?:s|B|Hz|W|J|B\/s|FLOP\/s|OP\/s)|%)(?![\w\/])/g;
  const texts = document.createTreeWalker(document.getElementById("main"), NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (!text.parentElement.checkVisibility() || !text.parentElement.closest("td:not([colspan]), dd")) continue;
    if (text.parentElement.closest(".ww-why, .ww-reason, .ww-was")) continue;
    for (const each of text.data.matchAll(value)) {
      const range = document.createRange();
      range.setStart(text, each.index);
      range.setEnd(text, each.index + each[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) found.push(each[0]);
    }
  }
  return found;
}"""
_WIDTH = "element => element.getBoundingClientRect().width"


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


def _plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_overviews_names_keep_room_at_every_width(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=768)
    tab.open(f"{address}/kernels/?open=rope%40nvidia-h200")
    assert tab.page.locator(".ww-workload").count() > 1
    for width in (768, 1024, 1200, 1320, 1440, 1600):
        tab.resize(width)
        assert tab.page.locator(".ww-folded .ww-column-name").evaluate(_WIDTH) >= 200, width


def test_no_line_ends_between_a_number_and_its_unit(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    for path in (
        "?open=rope%40nvidia-h200",
        "regressions?state=all",
        "kernel/rope",
        "machines",
        "roofline",
        f"commit/{addresses['slow_commit']}",
        f"compare?head={addresses['slow_commit']}&show=all",
        "compare?by=machine&base=runner-t4&head=nvidia-h200&show=all",
        f"series/{addresses['profiled']}",
    ):
        tab.page.goto(f"{address}/kernels/{path}")
        for width in (390, 800, 1100, 1440):
            tab.resize(width)
            assert tab.page.evaluate(_BROKEN_VALUES) == [], (path, width)


def test_the_longest_age_stays_in_the_overviews_card(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=1440)
    tab.open(f"{address}/kernels/")
    ages = tab.page.locator(".ww-folded .ww-line .ww-in-cause:has(time)")
    assert ages.count() > 1
    for age in ages.all():
        age.evaluate("cell => { cell.querySelector('time').textContent = '11 months ago'; }")
        assert age.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_on_a_phone_the_search_box_is_wide_while_one_types(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=320)
    tab.open(f"{address}/kernels/commits")
    box = tab.page.locator("#search")
    box.click()
    tab.page.keyboard.type("flash s2048")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), "what is typed is cut off"
    assert box.evaluate(_WIDTH) > 280
    tab.page.locator("[data-search-list] a").first.wait_for()
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.matches('[data-theme-toggle]')")
    assert box.evaluate(_WIDTH) < 200


def test_a_projects_name_stays_in_one_line(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=768)
    tab.open(f"{address}/kernels/commits")
    assert tab.page.locator(".ww-header-row").evaluate("row => row.getBoundingClientRect().height") <= 48


def test_targets_are_at_least_24_pixels_high(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=390)
    tab.open(f"{address}/kernels/regressions")
    low = tab.page.evaluate(
        """() => [...document.querySelectorAll('header a, footer a, footer button, summary, .btn, .ww-worst a')]
            .filter((each) => each.checkVisibility() && each.getBoundingClientRect().width > 1)
            .filter((each) => each.getBoundingClientRect().height < 24).map((each) => each.outerHTML)"""
    )
    assert low == []


def test_a_list_of_commits_shows_what_each_moved_and_goes_on(
    client: FlaskClient, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpwatch.dashboard.web.pages.commits._COMMITS_OF_A_PAGE", 5)
    first = client.get("/kernels/commits").text
    assert len(re.findall(r"<tbody>.*</tbody>", first, re.DOTALL)[0].split("<tr>")) == 6
    assert len(re.findall(r"Compare [0-9a-f]{8} with", first)) == 5  # the last one with the first of the next page
    last = re.search(r"Page 1 of (\d+)", _plain(first))
    assert last is not None
    pages = [client.get(f"/kernels/commits?page={number}").text for number in range(1, int(last[1]) + 1)]
    row = next(row for page in pages for row in page.split("<tr>") if f'commit/{addresses["slow_commit"]}"' in row)
    assert re.search(r"\d+ worse", row)
    assert ">Compare</a>" not in pages[-1].split("<tr>")[-1]  # the first commit of all has none before


def test_a_list_of_series_is_narrowed_by_metric_and_implementation(client: FlaskClient) -> None:
    page = client.get("/kernels/series?metric=warm_latency&implementation=triton").text
    rows = re.findall(r'<th scope="row".*?</th>', page, re.DOTALL)
    assert rows
    assert all("warm latency" in _plain(row) and "Triton" in row for row in rows)
    unasked = re.findall(r'<th scope="row".*?</th>', client.get("/kernels/series").text, re.DOTALL)
    assert "track_latency" in unasked[0]  # what readers ask for first


def test_a_series_and_its_kernel_agree_with_the_overview(client: FlaskClient, addresses: dict[str, str]) -> None:
    young = _plain(client.get(f"/young/series/{addresses['young']}").text)
    assert "Too new 1 of 4 commits" in young
    name = re.search(r"/young/kernel/([^?\"]+)", client.get(f"/young/series/{addresses['young']}").text)
    assert name is not None
    assert "Too new 1 of 4 commits" in _plain(client.get(f"/young/kernel/{name[1]}").text)


def test_points_without_a_number_are_not_counted_as_judged(client: FlaskClient, addresses: dict[str, str]) -> None:
    page = _plain(client.get(f"/kernels/series/{addresses['throttled']}").text)
    sentence = re.search(r"No change of level in (\d+) points( with a number)?\.", page)
    assert sentence is None or sentence[2]


def test_the_api_names_no_choice_that_is_not_there(client: FlaskClient) -> None:
    empty = {"anyOf": [{"enum": ["step", "drift"]}, {"const": ""}]}
    assert _kind(empty) == "one of “step”, “drift”"
    assert "or one of<" not in client.get("/api/").text


def test_peaks_are_in_tera_as_data_sheets_have_them() -> None:
    assert (throughput(1.979e15, "int8"), throughput(9.9e14, "fp16")) == ("1,980 TOP/s", "990 TFLOP/s")


def test_a_count_needs_no_unit() -> None:
    assert (quantity(3.86, "count"), quantity(9.0, "count")) == ("3.86", "9")


def test_the_list_of_projects_shows_where_something_is_to_do(client: FlaskClient) -> None:
    rows = {
        name: _plain(row)
        for row in client.get("/").text.split("<tr>")[2:]
        for name in re.findall(r'href="/(\w+)/"', row)
    }
    listed = _plain(client.get("/kernels/regressions").text)
    waiting = re.search(r"To do (\d+)", listed)
    assert waiting is not None
    assert rows["kernels"].split()[:2] == ["kernels", waiting[1]]
    assert rows["young"].split()[:2] == ["young", "none"]


def test_titles_of_tabs_begin_with_what_distinguishes_them(client: FlaskClient, addresses: dict[str, str]) -> None:
    def title(path: str) -> str:
        found = re.search(r"<title>(.*?)</title>", client.get(path).text)
        assert found is not None
        return found[1].removesuffix(" · warpwatch")

    assert title("/kernels/") == "Overview of kernels"
    assert (
        title(f"/kernels/series/{addresses['profiled']}") == "rope cuda-fp16-b8-h32-s2048-d128 warpwatch on nvidia-h200"
    )
    assert title(f"/kernels/series/{addresses['share']}").startswith(
        "rope cuda-fp16-b8-h32-s2048-d128 warpwatch speed of"
    )
    hostile = client.get(re.findall(r'href="(/[^"]*img[^"]*/)"', client.get("/").text)[0] + "series").text
    (series,) = set(re.findall(r'href="(/[^"]+/series/\w{16})"', hostile))
    assert title(series).startswith("Names.time_it &lt;img")
