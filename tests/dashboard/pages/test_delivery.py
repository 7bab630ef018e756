"""How answers travel: compressed, kept where they may be, with their time, and little of them before plotly."""

import re
import urllib.request

import pytest
from playwright.sync_api import Browser

from tests.dashboard.pages.browsing import Tab
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app

_FIRST_VISIT = 250_000  # bytes, issue 6


@pytest.mark.parametrize("coding", ["br", "gzip"])
def test_pages_and_files_are_compressed_for_clients_that_accept_it(history_store: Settings, coding: str) -> None:
    app = create_app(history_store)
    client = app.test_client()
    for path in ("/kernels/", "/static/vendor/bootstrap/bootstrap.min.css", "/static/page.js"):
        plain = client.get(path)
        small = client.get(path, headers={"Accept-Encoding": coding})
        assert "Content-Encoding" not in plain.headers
        assert small.headers["Content-Encoding"] == coding
        assert "Accept-Encoding" in small.headers["Vary"]
        assert len(small.get_data()) < 0.6 * len(plain.get_data())
    app.extensions["store"].close()


def test_files_are_cached_for_a_year_and_pages_state_their_time(address: str) -> None:
    with urllib.request.urlopen(f"{address}/static/page.js?v=1", timeout=60) as answer:
        assert "max-age=31536000" in answer.headers["Cache-Control"]
    with urllib.request.urlopen(f"{address}/kernels/", timeout=60) as answer:
        timing = re.fullmatch(r"app;dur=([\d.]+), cpu;dur=([\d.]+)", answer.headers["Server-Timing"])
        assert timing
        assert all(float(milliseconds) > 0 for milliseconds in timing.groups())


@pytest.mark.parametrize("path", ["/kernels/", "/kernels/series/{slowed}", "/kernels/roofline", "/kernels/regressions"])
def test_a_first_visit_is_small_and_nothing_moves_while_it_comes(
    path: str, address: str, addresses: dict[str, str], browser: Browser
) -> None:
    for width in (1440, 390):
        context = browser.new_context()  # with nothing cached
        tab = Tab(page=context.new_page(), complaints=[])
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.add_init_script(_WATCH)
        tab.open(address + path.format(**addresses))
        tab.page.wait_for_timeout(300)
        got = tab.page.evaluate(
            "performance.getEntries().filter((e) => e.transferSize !== undefined).map((e) => [e.name, e.transferSize])"
        )
        before_plotly = sum(size for name, size in got if "plotly" not in name)
        assert 10_000 < before_plotly < _FIRST_VISIT, got
        # A layout shift of 0.1 is good by Web Vitals; ours is zero, because a page is painted whole.
        moved = tab.page.evaluate("window.moved")
        assert sum(each[1] for each in moved) < 0.001, (width, moved)
        context.close()


_WATCH = """
window.moved = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const what = entry.sources.map((s) => s.node && `${s.node.nodeName}.${s.node.className}`);
    window.moved.push([entry.startTime, entry.value, what, entry.hadRecentInput]);
  }
}).observe({type: "layout-shift", buffered: true});
"""
