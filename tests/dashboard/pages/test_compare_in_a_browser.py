"""What a reader does on the compare page: chooses sides, narrows, opens rows, goes back."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser

from tests.dashboard.pages.browsing import Tab, faults


def _query(tab: Tab) -> dict[str, list[str]]:
    return parse_qs(urlsplit(tab.page.url).query)


def test_two_sides_are_chosen_by_a_form_that_suggests_commits(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/compare")
    suggested = tab.page.locator("datalist option").evaluate_all("all => all.map((each) => each.value)")
    tab.page.get_by_text("Choose other sides").click()
    tab.page.get_by_label("Base", exact=True).fill(suggested[4])
    tab.page.get_by_role("button", name="Compare").click()
    tab.page.wait_for_url(f"**base={suggested[4]}*")
    asked = _query(tab)
    assert asked["head"][0].startswith(suggested[0])
    tab.page.get_by_role("link", name="Head one commit back").click()
    tab.page.wait_for_url(lambda url: parse_qs(urlsplit(url).query)["head"][0].startswith(suggested[1]))
    assert tab.complaints == []


def test_two_empty_sides_are_the_newest_commit_and_the_one_before_it(
    address: str, browser: Browser, new_tab: Callable[..., Tab]
) -> None:
    without_script = browser.new_context(java_script_enabled=False)
    for page in (new_tab().page, without_script.new_page()):
        page.goto(f"{address}/kernels/compare")
        newest = [each.get_attribute("value") or "" for each in page.locator("datalist option").all()[:2]]
        page.get_by_text("Choose other sides").click()
        for side in ("Base", "Head"):
            page.get_by_label(side, exact=True).fill("")
        with page.expect_navigation():
            page.get_by_role("button", name="Compare").click()
        asked = parse_qs(urlsplit(page.url).query)
        assert [asked[side][0][:8] for side in ("head", "base")] == newest
    without_script.close()


def test_a_click_anywhere_on_a_row_opens_it_but_not_what_has_a_use_of_its_own(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/compare?head={addresses['slow_commit']}&show=all&q=decode+warpwatch+t4")
    row, opened = tab.page.locator(".ww-compared tbody > tr").first, tab.page.locator(".ww-opened")
    row.locator("[data-label=Head]").click()
    opened.wait_for()
    opened.locator("figcaption").first.click()
    assert opened.count() == 1
    row.locator("[data-label=Verdict]").click()
    assert opened.count() == 0
    row.locator("[data-label=Head]").dblclick()  # selects a word
    assert tab.page.evaluate("getSelection().toString()") != ""
    assert tab.complaints == []


def test_filters_are_in_the_url_and_another_reader_sees_the_same(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/compare?head={addresses['slow_commit']}")
    tab.page.locator(".ww-summary").get_by_role("link", name="show").click()
    tab.page.wait_for_url("**show=all**")
    tab.page.get_by_label("Machine", exact=True).select_option("runner-t4")
    tab.page.wait_for_url("**machine=runner-t4**")
    tab.page.get_by_label("Kernel", exact=True).select_option("flash_attention")
    tab.page.wait_for_url("**kernel=flash_attention**")
    shown = tab.page.locator(".ww-compared tbody tr").all_inner_texts()
    assert shown
    again = new_tab()
    again.open(tab.page.url)
    assert again.page.locator(".ww-compared tbody tr").all_inner_texts() == shown
    assert again.page.get_by_label("Kernel", exact=True).input_value() == "flash_attention"
    assert "show" in _query(again)


def test_a_row_opens_under_itself_stays_accessible_and_closes(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    for width in (1440, 390):
        tab = new_tab(width=width)
        tab.open(f"{address}/kernels/compare?head={addresses['slow_commit']}&show=all&q=decode+warpwatch+t4")
        row = tab.page.get_by_role("button", name="decode").first
        row.press("Enter")
        opened = tab.page.locator(".ww-opened")
        opened.wait_for()
        assert row.get_attribute("aria-expanded") == "true"
        assert "warpwatch gate" in opened.inner_text()
        for plot in opened.locator(".ww-plot").all():
            plot.scroll_into_view_if_needed()
            tab.page.wait_for_function("plot => plot.dataset.drawn", arg=plot.element_handle())
        assert opened.locator(".cartesianlayer .point").count() > 20
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(tab) == []
        opened.get_by_role("button", name="Copy").first.click()
        tab.page.get_by_role("button", name="Copied").or_(tab.page.get_by_role("button", name="Selected")).wait_for()
        row.click()
        assert tab.page.locator(".ww-opened").count() == 0
        assert tab.complaints == []


def test_without_script_a_row_is_a_link_to_its_own_page(
    address: str, browser: Browser, addresses: dict[str, str]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/kernels/compare?head={addresses['slow_commit']}&show=all")
    page.locator("a[data-open]").first.click()
    page.wait_for_url("**/compare/row?**")
    assert page.get_by_role("heading", name="Measure again").is_visible()
    context.close()
