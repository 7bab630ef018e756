"""Every page, on desk and phone, light and dark: it draws, fits, complains of nothing, and axe finds no fault."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext

from tests.dashboard.pages.browsing import Tab, faults
from tests.dashboard.pages.conftest import tabs_of

_DESK = 768  # pixels from which on pages are laid out for one
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
def tabs(browser_context: BrowserContext) -> Iterator[dict[int, Tab]]:
    """A tab for each width, which goes from page to page as a reader does: scripts are compiled once."""
    with tabs_of(browser_context) as open_tab:
        yield {width: open_tab(width=width) for width in (1440, 390)}


@pytest.mark.parametrize(("width", "scheme", "other_scheme"), [(1440, "light", "dark"), (390, "dark", "light")])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_draws_fits_and_is_accessible(
    path: str,
    width: int,
    scheme: str,
    other_scheme: str,
    address: str,
    tabs: dict[int, Tab],
    addresses: dict[str, str],
) -> None:
    tab, page = tabs[width], tabs[width].page
    tab.complaints.clear()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    tab.open(address + path.format(**addresses))
    assert page.locator("h1").count() == 1
    assert page.locator("html").get_attribute("data-bs-theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    for plot in page.locator(".ww-plot").all():
        assert plot.locator(".cartesianlayer .point").count() > 0, "the figure has no points"
    assert faults(tab) == []

    # Of what axe looks at, a change of scheme changes the colours alone.
    page.emulate_media(color_scheme=other_scheme)  # type: ignore[arg-type]
    page.wait_for_selector(f"html[data-bs-theme={other_scheme}]")
    assert faults(tab, of_colour=True) == []

    is_not_there = path.endswith("0000000000000000") or "feedfeed" in path
    expected = [c for c in tab.complaints if not (is_not_there and "404" in c)]
    assert expected == []
    if width < _DESK:  # WCAG 2.2, 1.4.10: no scrolling in two directions at 320 pixels
        page.set_viewport_size({"width": 320, "height": 900})
        page.wait_for_function("() => document.documentElement.scrollWidth <= 320", timeout=20_000)
