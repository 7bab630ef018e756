"""Every page, on desk and phone, light and dark: it draws, fits, complains of nothing, and axe finds no fault."""

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext

from tests.dashboard.pages.browsing import Tab, faults
from tests.dashboard.pages.conftest import tabs_of

PAGES = (
    "/",
    "/kernels/",
    "/kernels/?q=decode&machine=runner-t4",
    "/search?q=rope",
    "/kernels/search?q=decode+t4",
    "/kernels/search?q=decod+atention",
    "/kernels/?kernel=rope&sort=baseline",
    "/kernels/series?q=rope",
    "/kernels/series/{slowed}",
    "/kernels/series/{throttled}?x=date&y=log",
    "/kernels/series/{failed}",
    "/kernels/series/{profiled}",
    "/kernels/series/{unmeasured}",
    "/kernels/series/{launches}",
    "/kernels/series/{slowed}?x=commit&with={throttled}&with={launches}",
    "/kernels/kernel/rope?machine=nvidia-h200",
    "/kernels/kernel/flash_attention?machine=runner-t4&against=newest",
    "/kernels/roofline?machine=runner-t4",
    "/kernels/roofline",
    "/kernels/roofline?kernel=flash_attention&kernel=rope&shapes=one&dtype=fp16",
    "/kernels/roofline?q=nothing",
    "/kernels/regressions",
    "/kernels/regressions?kind=transient",
    "/kernels/compare",
    "/kernels/compare?head={slow_commit}&show=all",
    "/kernels/compare?base=feedfeed&head={slow_commit}",
    "/kernels/compare?by=machine&base=nvidia-h200&head=runner-t4",
    "/kernels/compare?by=implementation&base=&head=warpwatch",
    "/kernels/compare?by=implementation",
    "/kernels/release",
    "/kernels/compare/row?head={slow_commit}&series={slowed}",
    "/kernels/regressions?order=worst&state=all&period=365",
    "/kernels/regressions/{card}",
    "/kernels/commits",
    "/kernels/commit/{slow_commit}",
    "/kernels/machines",
    "/kernels/tokens",
    "/account",
    "/kernels/machines/nvidia-h200",
    "/young/machines/runner-t4",
    "/young/regressions",
    "/young/series/{young}",
    "/kernels/series/0000000000000000",
    "/api/",
)


@pytest.fixture(scope="module")
def tab(browser_context: BrowserContext) -> Iterator[Tab]:
    """One tab, which goes from page to page as a reader does."""
    with tabs_of(browser_context) as open_tab:
        yield open_tab()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_draws_fits_and_is_accessible(path: str, address: str, tab: Tab, addresses: dict[str, str]) -> None:
    page = tab.page
    tab.complaints.clear()
    # Loaded on the phone and then widened; tests of what a reader does on a page load it at a desk.
    page.set_viewport_size({"width": 390, "height": 900})
    page.emulate_media(color_scheme="dark")
    tab.open(address + path.format(**addresses))
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "the page scrolls sideways"
    _has_no_fault(tab, "dark")
    # Of what axe looks at, a change of scheme changes the colours alone.
    _has_no_fault(tab, "light", of_colour=True)
    tab.resize(320)  # WCAG 2.2, 1.4.10: no scrolling in two directions at 320 pixels
    tab.resize(1440)
    _has_no_fault(tab, "light")
    _has_no_fault(tab, "dark", of_colour=True)

    is_not_there = path.endswith("0000000000000000") or "feedfeed" in path
    expected = [c for c in tab.complaints if not (is_not_there and "404" in c)]
    assert expected == []


def _has_no_fault(tab: Tab, scheme: Literal["light", "dark"], *, of_colour: bool = False) -> None:
    """The page takes this scheme, its figures have points, and axe finds nothing."""
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.wait_for_selector(f"html[data-bs-theme={scheme}]")
    for plot in tab.page.locator(".ww-plot").all():
        assert plot.locator(".cartesianlayer .point").count() > 0, "the figure has no points"
    assert faults(tab, of_colour=of_colour) == []
