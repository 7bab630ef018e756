"""The roofline page: what is chosen is in the URL, in the figure and in the strip; trails lead to the points."""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.dashboard.pages.browsing import Tab
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app


def _page(settings: Settings, query: str) -> tuple[str, dict[str, Any]]:
    app = create_app(settings)
    html = app.test_client().get(f"/kernels/roofline?machine=nvidia-h200&{query}").get_data(as_text=True)
    app.extensions["store"].close()
    found = re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    return html, json.loads(found[1]) if found else {}


def _keys(figure: dict[str, Any]) -> set[str]:
    return {key for trace in figure["data"] for key in trace.get("customdata", ())}


def _rows(html: str) -> list[str]:
    return re.findall(r'data-point="([0-9a-f]+)"', html)


def test_the_figure_and_the_strip_show_the_same_of_what_is_chosen(history_store: Settings) -> None:
    whole, all_points = _page(history_store, "")
    assert set(_rows(whole)) == _keys(all_points)
    chosen, some = _page(history_store, "kernel=rope&kernel=int4_linear&q=n4096")
    assert set(_rows(chosen)) == _keys(some)
    assert 0 < len(_rows(chosen)) < len(_rows(whole))
    assert "flash_attention</a>" not in chosen
    assert "No point matches" in _page(history_store, "q=nosuchshape")[0]


def test_one_shape_of_each_kernel_is_its_longest_with_ours_and_one_rival(history_store: Settings) -> None:
    html, figure = _page(history_store, "shapes=one")
    shapes = set(re.findall(r'<span class="ww-subject"><a[^>]*>(cuda-[^<]+)</a></span>', html))
    assert shapes == {
        "cuda-fp16-b8-h32-s2048-d128",
        "cuda-fp16-b1-h32-s2048-d128-causal",
        "cuda-fp16-m16-n14336-k4096-g128",
    }
    assert len(_rows(html)) == len(_keys(figure)) == 6
    assert html.count("ww-strip-rival") == 3


def test_the_kernels_with_the_most_time_to_gain_stand_above_the_figure(history_store: Settings) -> None:
    html, _ = _page(history_store, "shapes=all")
    (line,) = re.findall(r'<p class="ww-verdict-line">(.*?)</p>', html, re.DOTALL)
    assert re.findall(r"series/([0-9a-f]+)", line) == _rows(html)[:3]


def test_only_the_chosen_dtypes_have_roofs(history_store: Settings) -> None:
    labels = [each["text"] for each in _page(history_store, "dtype=fp16")[1]["layout"]["annotations"]]
    assert any("fp16" in text for text in labels)
    assert not any("fp32" in text or "int8" in text for text in labels)


def test_a_trail_ends_at_its_point_and_begins_some_commits_before(history_store: Settings) -> None:
    _, figure = _page(history_store, "kernel=rope&shapes=one")
    (line,) = (trace for trace in figure["data"] if trace["mode"] == "lines" and trace.get("opacity"))
    (start,) = (
        t for t in figure["data"] if t["mode"] == "markers" and t.get("opacity") and t.get("legendgroup") == "warpwatch"
    )
    full = next(t for t in figure["data"] if t.get("name") == "warpwatch" and t.get("customdata"))
    assert line["y"][0] == start["y"][0]
    assert line["y"][-1] is None
    assert abs(line["y"][-2] / full["y"][0] - 1) < 1e-9
    assert len(line["y"]) == 13  # twelve commits and the gap
    assert "11 commits before" in start["text"][0]
    assert start["customdata"] == full["customdata"]


def test_a_row_of_the_strip_shows_its_point_and_sorts(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=1200)
    tab.open(f"{address}/kernels/roofline")
    page = tab.page
    figure, strip = page.locator(".ww-roofline > section").all()
    boxes = figure.bounding_box(), strip.bounding_box()
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"], "the strip is next to the figure"
    assert strip.locator(".ww-scroll").evaluate("box => box.scrollWidth <= box.clientWidth"), "a column is cut"
    page.keyboard.press("j")
    name = page.locator("[data-point]").first.locator(".ww-subject").first.inner_text()
    page.locator(".hoverlayer .hovertext", has_text=name).wait_for()
    page.get_by_role("button", name="Gain").click()
    taken = [
        float(v) for v in page.eval_on_selector_all("[data-point] td:last-child", "c => c.map(e => e.dataset.value)")
    ]
    assert taken == sorted(taken)
    assert tab.complaints == []


def test_the_choice_of_kernels_goes_into_the_url(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=390)
    tab.open(f"{address}/kernels/roofline?machine=nvidia-h200")
    tab.page.locator(".ww-choose summary").click()
    for name in ("rope", "int4_linear"):
        tab.page.get_by_label(name, exact=True).check()
    tab.page.get_by_role("button", name="Show these").click()
    tab.page.wait_for_url("**kernel=int4_linear&kernel=rope**")
    assert "2 kernels" in tab.page.locator(".ww-choose summary").inner_text()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_strip_stands_as_it_was_sorted_when_its_address_is_opened_again(
    new_tab: Callable[..., Tab], address: str
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/roofline?machine=nvidia-h200")
    latencies = tab.page.locator("table[data-sortable] tbody tr td:last-child")
    as_it_came = latencies.all_inner_texts()
    tab.page.get_by_role("button", name="Gain").click()
    ascending = latencies.all_inner_texts()
    tab.page.get_by_role("button", name="Gain").click()
    descending = latencies.all_inner_texts()
    assert sorted(as_it_came) == sorted(ascending) == sorted(descending)
    assert len({*map(tuple, (as_it_came, ascending, descending))}) > 1
    assert "sort=-gain" in tab.page.url
    tab.page.reload()
    assert latencies.all_inner_texts() == descending
    tab.page.locator("#shapes").select_option("one")
    tab.page.wait_for_url(lambda url: "shapes=one" in url)
    assert "sort=-gain" in tab.page.url  # a filter keeps it
    kept = latencies.all_inner_texts()
    assert kept == [text for text in descending if text in kept]
    assert tab.complaints == []


def test_our_rows_are_ranked_by_the_time_to_gain(history_store: Settings) -> None:
    html, _ = _page(history_store, "")
    gains = [float(value) for value in re.findall(r'<td class="ww-number" data-value="([0-9.e-]+)">(?:−|none)', html)]
    assert len(gains) > 3
    assert gains == sorted(gains, reverse=True)
    assert set(re.findall(r"bound by (\w+)</span>", html)) <= {"memory", "compute", "latency"}
    shares = re.findall(r'data-value="([0-9.e-]+)">−?[^<]*<span class="ww-since">of ([0-9.]+)\s*(ms|µs)', html)
    for gain, amount, unit in shares:
        assert float(gain) < float(amount) * {"ms": 1e-3, "µs": 1e-6}[unit]
