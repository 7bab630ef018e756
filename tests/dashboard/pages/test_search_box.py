"""The search box: it answers while one types, by hand and by keys, says so, and is a page where no script runs."""

import html
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Route

from tests.dashboard.pages.browsing import HOSTILE, Tab, a_client
from warpwatch.dashboard.settings import Settings

_LIST = "[data-search-list]"
_MORE_WORDS_AND_DOWN = """words => {
  const input = document.querySelector("#search");
  input.value = words;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  input.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
  return document.activeElement.href;
}"""


def test_what_is_typed_is_found_and_the_arrows_lead_there(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    page = tab.page
    page.keyboard.press("/")
    with page.expect_response("**/search?q=decode+t4+latency&live=1"):
        page.keyboard.type("decode t4 latency", delay=5)
    found = page.locator(f"{_LIST} a")
    found.first.wait_for()
    assert "decode" in found.first.inner_text()
    status = page.get_by_role("search").get_by_role("status").inner_text()
    assert status.startswith(f"{found.count()} result")
    page.keyboard.press("ArrowDown")
    assert found.first.evaluate("link => link === document.activeElement")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/kernels/series/*")
    assert tab.complaints == []


def test_the_current_item_of_the_list_stays_when_a_later_answer_comes(
    address: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    page = tab.page
    held: list[Route] = []
    page.route("**/search?q=rope+l&live=1", lambda route: held.append(route))
    page.locator("#search").fill("rope")
    page.locator(f"{_LIST} a").nth(1).wait_for()
    with page.expect_request("**/search?q=rope+l&live=1"):
        # At once, so that the list still has its links however busy the machine is.
        there = page.evaluate(_MORE_WORDS_AND_DOWN, "rope l")
    page.wait_for_timeout(600)  # longer than the box waits until it says that it searches
    assert "rope" in there
    assert page.evaluate("document.activeElement.href") == there
    with page.expect_response("**/search?q=rope+l&live=1"):
        held[0].continue_()
    page.wait_for_timeout(200)
    assert page.evaluate("document.querySelector('[data-search-list]').contains(document.activeElement)")


def test_escape_closes_the_list_and_keeps_the_words(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=390)
    tab.open(f"{address}/kernels/commits")
    page = tab.page
    page.locator("#search").fill("rope")
    page.locator(f"{_LIST} a").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    page.locator(_LIST).wait_for(state="hidden")
    assert (page.evaluate("document.activeElement.id"), page.locator("#search").input_value()) == ("search", "rope")


def test_an_old_answer_that_comes_late_is_not_shown(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    page = tab.page
    held: list[Route] = []
    page.route("**/search?q=rope&live=1", lambda route: held.append(route))
    page.locator("#search").fill("rope")
    page.wait_for_function("() => document.querySelector('[data-search-list]').textContent.includes('Searching')")
    page.locator("#search").fill("int4")
    page.locator(f"{_LIST} a", has_text="int4").first.wait_for()
    assert len(held) == 1  # its page has hung up, so that no client waits for what is held
    page.wait_for_timeout(300)
    assert "rope" not in page.locator(_LIST).inner_text()


def test_a_search_that_fails_says_what_to_do(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    tab.page.route("**/search?*", lambda route: route.abort())
    tab.page.locator("#search").fill("rope")
    tab.page.locator(_LIST, has_text="Press Enter for the search page").wait_for()


@pytest.mark.parametrize("place", ["/kernels/machines", "/"])
def test_without_a_script_enter_leads_to_the_results(address: str, browser: Browser, place: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + place)
    page.locator("#search").fill("attenton decode")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=attenton+decode")
    page.get_by_role("link", name="attention decode").click()
    assert page.locator("[data-hit]").count() > 0
    context.close()


def hits(client: FlaskClient, words: str) -> dict[str, list[tuple[str, str, str]]]:
    """By heading: the address, the name and its details."""
    page = client.get("/kernels/search", query_string={"q": words}).text
    found = {}
    for section in re.findall(r'<section class="ww-hits".*?</section>', page, re.DOTALL):
        lines = re.findall(r'href="([^"]+)" data-hit>(.*?)</a>', section, re.DOTALL)
        names = [re.findall(r'class="ww-hit-(?:name|more)">([^<]*)', line) or [line] for _, line in lines]
        found[section.partition('aria-label="')[2].partition('"')[0]] = [
            (html.unescape(address), each[0], each[-1]) for (address, _), each in zip(lines, names, strict=True)
        ]
    return found


def test_words_of_a_kernel_and_of_its_workloads_offer_the_kernel(history_store: Settings) -> None:
    with a_client(history_store) as client:
        found = hits(client, "Attention fp16 s2048")
        assert [(address, name) for address, name, _ in found["Kernels"]] == [
            ("/kernels/?kernel=flash_attention&q=fp16+s2048", "flash_attention")
        ]
        page = client.get(found["Kernels"][0][0]).text
        shown = set(re.findall(r'class="ww-series"[^>]*>([^<]+)', page))
        assert {name.strip() for name in shown} == {"cuda-fp16-b1-h32-s2048-d128-causal", "Triton"}
        assert [address for address, *_ in hits(client, "rope")["Kernels"]] == ["/kernels/kernel/rope"]
        assert "Kernels" not in hits(client, "rope s512 d64 full")  # no workload of rope has all words
        assert "Kernels" not in hits(client, "s2048 d128")  # no kernel is named


def test_a_workload_leads_to_its_own_kernel(history_store: Settings) -> None:
    with a_client(history_store) as client:
        workloads = hits(client, "fp16")["Workloads"]
        assert len(workloads) > 4
        for address, name, operator in workloads:
            asked = parse_qs(urlsplit(address).query)
            assert asked == {"kernel": [operator], "q": [name]}
            page = client.get(address).text.replace("<wbr>", "")
            lines = re.findall(r'<tr class="ww-line.*?<th[^>]*>([^<]*)', page, re.DOTALL)
            assert set(lines) <= {operator}


def test_series_are_named_by_workload_and_their_environment_only_where_there_are_several(
    history_store: Settings,
) -> None:
    with a_client(history_store) as client:
        series = hits(client, "rope s512 latency t4")["Series"]
        page = client.get("/kernels/search?q=rope+s512+latency+t4").text
    assert re.search(r'class="ww-value">[\d.]+ µs</span>\s*<span class="ww-verdict', page)
    names = {name for _, name, _ in series}
    assert "rope cuda-fp16-b1-h32-s512-d64 warpwatch" in names
    assert not any(name.startswith("benchmarks.") for name in names)
    assert {machine for *_, machine in series} == {"runner-t4"}


def test_a_hostile_name_in_the_list_stays_text(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/")
    tab.page.locator("#search").fill("onerror")
    found = tab.page.locator(f"{_LIST} a", has_text=HOSTILE[:20])
    found.first.wait_for()
    assert tab.page.locator(f"{_LIST} img, {_LIST} script").count() == 0
    assert "owned" not in tab.page.title()
    assert tab.complaints == []


def test_kernels_are_found_with_their_standing(history_store: Settings) -> None:
    with a_client(history_store) as client:
        page = client.get("/kernels/search?q=flash_attention").text
        overview = client.get("/kernels/").text
    (kernels,) = re.findall(r'aria-label="Kernels".*?</section>', page, re.DOTALL)
    ratios = re.findall(r'<b class="ww-value">([\d.]+×)</b>', kernels)
    assert ratios
    assert all(ratio in overview for ratio in ratios)
