"""The search box: it answers while one types, by hand and by keys, says so, and is a page where no script runs."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Route

from tests.dashboard.pages.browsing import HOSTILE, Tab

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


def test_who_walks_the_list_keeps_the_place_in_it_when_a_later_answer_comes(
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
    assert len(held) == 1  # its page has hung up, so that nobody waits for what is held
    page.wait_for_timeout(300)
    assert "rope" not in page.locator(_LIST).inner_text()


def test_a_search_that_fails_says_what_to_do(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    tab.page.route("**/search?*", lambda route: route.abort())
    tab.page.locator("#search").fill("rope")
    tab.page.locator(_LIST, has_text="Enter asks again").wait_for()


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


def test_a_hostile_name_in_the_list_stays_text(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/")
    tab.page.locator("#search").fill("onerror")
    found = tab.page.locator(f"{_LIST} a", has_text=HOSTILE[:20])
    found.first.wait_for()
    assert tab.page.locator(f"{_LIST} img, {_LIST} script").count() == 0
    assert "owned" not in tab.page.title()
    assert tab.complaints == []
