"""The policy in real Chromium: plotly draws as it does elsewhere, and nothing inline is allowed."""

from collections.abc import Callable

import requests

from tests.dashboard.pages.browsing import Tab

# What plotly gives style attributes to: bold text, a heat map, its colour bar.
DRAW = """async () => {
  const plot = document.createElement("div");
  plot.id = "drawn";
  document.querySelector("main").append(plot);
  const title = { text: "plain <b>bold</b> <span style='fill:rgb(1, 2, 3)'>x</span>" };
  await Plotly.newPlot(plot, [{ type: "heatmap", z: [[1, 2], [3, 4]] }], { width: 600, height: 300, title });
}"""


def test_what_plotly_writes_as_style_attributes_is_applied(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/series/{addresses['slowed']}")
    tab.page.evaluate(DRAW)
    bold, coloured = tab.page.locator("#drawn .gtitle tspan").all()
    assert bold.evaluate("node => getComputedStyle(node).fontWeight") == "700"
    assert coloured.evaluate("node => getComputedStyle(node).fill") == "rgb(1, 2, 3)"
    rendering = tab.page.locator("#drawn .heatmaplayer image").evaluate("node => getComputedStyle(node).imageRendering")
    assert rendering == "pixelated"
    layers = tab.page.locator("#drawn .main-svg").all()  # by plotly's own rules one upon the other, not below
    assert [layer.evaluate("node => getComputedStyle(node).position") for layer in layers] == ["absolute"] * len(layers)
    assert layers
    assert tab.complaints == []


def test_an_inline_style_or_script_is_still_refused(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/series/{addresses['slowed']}")
    tab.page.evaluate(
        """() => document.querySelector("main").insertAdjacentHTML("beforeend",
        "<p id='inline' style='color:rgb(1, 2, 3)'>x</p><img src='data:,' onerror='document.title=1'>")"""
    )
    colour = tab.page.locator("#inline").evaluate("node => getComputedStyle(node).color")
    assert colour != "rgb(1, 2, 3)"
    tab.page.wait_for_timeout(200)
    assert tab.page.title() != "1"
    assert len([said for said in tab.complaints if "Content Security Policy" in said]) == 2


def test_every_answer_has_its_headers(address: str, addresses: dict[str, str]) -> None:
    for path in (
        "/",
        "/kernels/",
        "/kernels/roofline",
        "/kernels/regressions",
        "/kernels/commits",
        "/kernels/machines",
        "/kernels/tokens",
        "/account",
        "/kernels/series?q=rope",
        f"/kernels/series/{addresses['slowed']}",
        "/healthz",
        "/static/warpwatch.css",
        "/nothing",
        "/api/x",
    ):
        headers = requests.get(address + path, timeout=60).headers
        policy = headers["Content-Security-Policy"]
        assert "unsafe" not in policy, path
        for part in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"):
            assert part in policy, path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "camera=()" in headers["Permissions-Policy"]
        assert "Server" not in headers or "/" not in headers["Server"]  # no version
