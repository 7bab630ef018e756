"""A page on paper: light whatever the theme, its figures as wide as the sheet, and nothing on it that one presses."""

from collections.abc import Callable

import pytest

from tests.dashboard.pages.browsing import Tab

_SHEET = 718  # pixels of an A4 sheet between its margins
_WIDTHS = (_SHEET, 1047)  # A4 upright, and lying
_FILLS_ITS_CARD = """width => {
  const [figure, card] = [".main-svg", ".ww-card:has(.ww-plot)"].map((each) => document.querySelector(each));
  const share = figure.getBoundingClientRect().width / card.getBoundingClientRect().width;
  return innerWidth === width && share > 0.9 && share <= 1;
}"""
_LUMINANCE = """selector => getComputedStyle(document.querySelector(selector)).color.match(/\\d+/g)
  .slice(0, 3).reduce((sum, each) => sum + Number(each), 0) / 3"""
_CUT = """sheet => [...document.querySelectorAll('main *')].filter(each => each.checkVisibility()
  && each.getBoundingClientRect().right > sheet + 1).map(each => each.className || each.tagName)"""
_PAGES = (
    "/kernels/",
    "/kernels/series/{slowed}",
    "/kernels/compare?head={slow_commit}",
    "/kernels/regressions",
    "/kernels/commit/{slow_commit}",
    "/kernels/roofline",
    "/kernels/kernel/rope?machine=nvidia-h200",
)


@pytest.mark.parametrize("path", _PAGES)
def test_a_page_from_a_dark_screen_is_light_on_paper_and_nothing_is_cut(
    path: str, address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab(scheme="dark")
    tab.open(address + path.format(**addresses))
    page = tab.page
    assert page.evaluate(_LUMINANCE, "h1") > 200
    page.emulate_media(media="print")
    page.wait_for_function("() => document.documentElement.dataset.bsTheme === 'light'")
    for plot in page.locator(".ww-plot").all():
        page.wait_for_function("plot => plot.dataset.drawn === 'light'", arg=plot.element_handle())
    page.set_viewport_size({"width": _SHEET, "height": 1000})
    assert page.evaluate(_LUMINANCE, "h1") < 60
    assert page.evaluate(_CUT, _SHEET) == []
    for pressed in (".ww-tabs", "main .btn", "main form", "[data-theme-toggle]", "main input"):
        assert page.locator(pressed).filter(visible=True).count() == 0, pressed
    assert page.get_by_text("kernels").first.is_visible()  # whose page it is
    page.emulate_media(media="screen")
    page.wait_for_function("() => document.documentElement.dataset.bsTheme === 'dark'")
    assert tab.complaints == []


def test_figures_are_as_wide_as_the_paper_and_trends_are_on_it(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    page = tab.page
    for path in ("/kernels/series/{slowed}", "/kernels/roofline"):
        tab.open(address + path.format(**addresses))
        page.emulate_media(media="print")
        page.wait_for_function("() => document.documentElement.hasAttribute('data-printing')")
        for width in _WIDTHS:
            page.set_viewport_size({"width": width, "height": 1400})
            page.wait_for_function(_FILLS_ITS_CARD, arg=width)
        page.emulate_media(media="screen")
        page.wait_for_function("() => !document.documentElement.hasAttribute('data-printing')")
    tab.open(f"{address}/kernels/")
    page.emulate_media(media="print")
    trends = page.locator("td.ww-column-spark svg")
    assert trends.count() > 1
    for width in _WIDTHS:
        page.set_viewport_size({"width": width, "height": 1400})
        page.wait_for_function("width => innerWidth === width", arg=width)
        assert all(trend.is_visible() for trend in trends.all())
        assert page.evaluate(_CUT, width) == []
    assert tab.complaints == []
