"""What a reader does with a history in a browser: click a point, step on, zoom in, add a series, read a heat map."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.dashboard.pages.browsing import HOSTILE, Tab, faults, serving
from tests.dashboard.pages.test_pages_behaviour import _click_point, _drag, _point_at
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.notes import add_annotation

LONG = 1300
NAME = "suite.Bench.track_latency"


@pytest.fixture(scope="session")
def long_series(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a series of so many commits that not all are drawn, with a note that is an attack."""
    folder = tmp_path_factory.mktemp("long")
    settings = Settings(database=f"sqlite:///{folder / 'long.db'}")
    store = Store(settings.database)
    asv = AsvResults(Path(folder) / "results")
    asv.benchmark(NAME)
    for number in range(LONG):
        level = 1.0 + 0.1 * (number >= 400) + 0.1 * (number >= 420) + 0.1 * (number >= 440)
        asv.commit(number, {NAME: asv.row([level * (1 + 0.001 * ((number * 7919) % 11))], started_at=number + 1)})
    asv.load(store)
    add_annotation(store, "demo", hash_of(700), author=HOSTILE, text=HOSTILE, now_ms=1)
    key = queries.find_series(store, "demo").series[0].key
    store.close()
    with serving(settings) as url:
        yield f"{url}/demo/series/{key}"


def _query(tab: Tab) -> dict[str, list[str]]:
    return parse_qs(urlsplit(tab.page.url).query)


def _panel(tab: Tab) -> str:
    """Its words but those of the figure of samples, which depend on its width and on whether it is drawn yet."""
    parts = tab.page.locator("#point > :not(.ww-samples), #point .ww-sampled").all_inner_texts()
    return re.sub(r"\s+", " ", " ".join(parts))


def test_a_click_on_a_point_opens_it_beneath_and_another_reader_gets_the_same(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    url = f"{address}/kernels/series/{addresses['throttled']}"
    tab = new_tab()
    tab.open(url)
    newest = _panel(tab)
    history = f"{address}/api/projects/kernels/series/{addresses['throttled']}/history"
    point = tab.page.request.get(history).json()["points"][5]
    _click_point(tab, "warpwatch", 5)
    tab.page.wait_for_url("**run=**")
    panel = _panel(tab)
    assert panel != newest
    for said in (
        point["commit"][:8],
        "Ada Byron",
        "580.65.06",
        "51 °C",
        "power cap for 400 µs",
        "20 samples",
        "asv run --record-samples",
        "Compare with previous",
        "Registers",
    ):
        assert said in panel, said
    assert _query(tab)["run"] == [point["run"]]
    ring = "document.querySelector('.ww-plot').data.find((trace) => trace.name === 'chosen').x"
    assert tab.page.evaluate(ring) == [5]
    again = new_tab(width=390)
    again.open(tab.page.url)
    assert _panel(again) == panel
    assert tab.complaints == again.complaints == []


def test_the_panel_steps_on_by_keyboard_and_its_command_can_be_copied(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/series/{addresses['throttled']}")
    history = f"{address}/api/projects/kernels/series/{addresses['throttled']}/history"
    points = tab.page.request.get(history).json()["points"]
    tab.page.get_by_role("link", name="Older").focus()
    for expected in points[-2:-5:-1]:
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url(f"**run={expected['run']}")
    assert tab.page.evaluate("document.activeElement.dataset.step") == "older"
    button = tab.page.locator("#point [data-copy]")
    button.click()
    tab.page.wait_for_function("button => button.textContent !== 'Copy'", arg=button.element_handle())
    assert tab.complaints == []


def test_without_a_script_the_table_of_points_leads_to_each(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.page.route("**/series.js*", lambda route: route.fulfill(body="", content_type="text/javascript"))
    tab.open(f"{address}/kernels/series/{addresses['throttled']}")
    row = tab.page.locator("#points tbody tr").nth(2)
    commit = row.locator("a").inner_text()
    row.locator("a").click()
    tab.page.wait_for_url("**run=**")
    assert f"Point at {commit}" in _panel(tab)


def test_a_long_history_says_that_it_is_thinned_and_a_zoom_brings_every_point(
    long_series: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(long_series)
    said = tab.page.locator("[data-drawn-points]")
    drawn = int(re.findall(r"([\d,]+) of 1,300 points", said.inner_text())[0].replace(",", ""))
    assert drawn < LONG
    shown = "document.querySelector('.ww-plot').data.find((trace) => trace.name === 'value').x"
    assert len(tab.page.evaluate(shown)) == drawn
    with tab.page.expect_response("**/figure.json?*from=*"):
        _drag(tab, 0.3, 0.4)
    tab.page.wait_for_function(
        f"""() => {{
          const [from, to] = document.querySelector('.ww-plot').layout.xaxis.range;
          const here = {shown}.filter((x) => x >= from && x <= to);
          return here.length > 100 && here.at(-1) - here[0] === here.length - 1;
        }}"""
    )
    said.filter(has_text="of this range").wait_for()
    assert {"from", "to"} <= set(_query(tab))
    again = new_tab()
    again.open(tab.page.url)
    assert again.page.locator("[data-drawn-points]").filter(has_text="of this range").count() == 1
    box = tab.page.locator(".ww-plot .nsewdrag").first.bounding_box()
    assert box is not None
    tab.page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.page.wait_for_url(lambda url: "from=" not in url)
    said.filter(has_text="of 1,300 points are drawn").wait_for()
    assert tab.complaints == again.complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_labels_of_changes_that_are_close_do_not_overlap(
    width: int, long_series: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(width=width)
    tab.open(long_series)
    label = tab.page.locator(".ww-plot .annotation-text")
    boxes = tab.page.evaluate("""() => [...document.querySelectorAll('.ww-plot .annotation')].map((label) => {
      const {left, right, top, bottom} = label.querySelector('.annotation-text').getBoundingClientRect();
      return [left, right, top, bottom];
    })""")
    assert label.count() == len(boxes) >= 2
    for number, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[number + 1 :]:
            apart = right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
            assert apart, (boxes, label.all_inner_texts())
    tab.open(f"{long_series}?from={hash_of(380)[:8]}&to={hash_of(460)[:8]}")
    assert label.filter(has_text="%").count() == 3  # each has room from near


def test_a_hostile_note_is_only_text(long_series: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=390)
    tab.open(long_series)
    _point_at(tab, lambda: _note(tab))
    assert "owned" not in tab.page.title()
    assert tab.page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
    assert HOSTILE in tab.page.locator("[aria-labelledby=marks-heading]").inner_text()
    assert tab.complaints == []


def _note(tab: Tab) -> tuple[float, float]:
    x, y = tab.page.evaluate("""() => {
      const plot = document.querySelector('.ww-plot');
      const note = plot.data.find((trace) => trace.name === 'note');
      const {xaxis, yaxis4} = plot._fullLayout;
      const box = plot.getBoundingClientRect();
      return [box.x + xaxis._offset + xaxis.d2p(note.x[0]), box.y + yaxis4._offset + yaxis4.d2p(0)];
    }""")
    return x, y


def test_another_series_comes_onto_the_axis_and_leaves_it(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/series/{addresses['profiled']}?y=log")
    tab.page.get_by_text("Add a series to this axis").click()
    tab.page.get_by_label("Benchmark, parameter or machine to add").fill("rope s2048 triton track_latency runner-t4")
    tab.page.get_by_role("button", name="Find").click()
    tab.page.wait_for_url("**find=**")
    tab.page.locator(".ww-offers a").first.click()
    tab.page.wait_for_url("**with=**")
    tab.open(tab.page.url)
    assert _query(tab)["y"] == ["log"]
    plot = tab.page.locator(".ww-plot")
    assert plot.locator(".subplot.xy5").count() == 1
    name = tab.page.locator("[aria-labelledby=overlays-heading] tbody th").inner_text()
    assert "Triton" in name
    _drag(tab, 0.2, 0.5)
    tab.page.wait_for_url("**from=**")
    tab.page.get_by_role("link", name=re.compile("Remove")).click()
    tab.page.wait_for_url(lambda url: "with=" not in url)
    assert {"from", "y"} <= set(_query(tab))
    assert tab.page.locator("[aria-labelledby=overlays-heading]").count() == 0
    assert tab.complaints == []


def test_on_a_phone_the_heat_map_names_its_rows_and_their_newest_change(
    address: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(width=390)
    tab.open(f"{address}/kernels/kernel/flash_attention?machine=nvidia-h200")
    labels = tab.page.locator(".ww-plot .ytick text").all_text_contents()
    # What they have in common is left out: cuda, fp16, h32.
    assert labels == ["b1-s2048-d128-causal", "b8-kv8-s1-4096-d128-decode", "b16-s512-d64-full"]
    newest = tab.page.locator(".ww-plot .annotation-text").all_text_contents()
    cells = tab.page.locator("[aria-labelledby=shapes-heading] [data-label=Change]").all_text_contents()
    assert [cell.split()[0] for cell in cells] == newest
    for swatch in tab.page.locator(".ww-key > span").all():
        assert swatch.evaluate("item => item.getClientRects().length") == 1
        assert swatch.locator("i").count() == 1
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert faults(tab) == []
    assert tab.complaints == []


def test_a_cell_of_the_heat_map_leads_to_its_shape_at_its_commit(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/kernel/rope?machine=nvidia-h200")
    rows = tab.page.locator("[aria-labelledby=shapes-heading] tbody tr")
    assert rows.count() == 2
    link = rows.nth(1).locator("a").first.get_attribute("href")
    x, y = tab.page.evaluate("""() => {
      const plot = document.querySelector('.ww-plot');
      const {xaxis, yaxis} = plot._fullLayout;
      const box = plot.getBoundingClientRect();
      return [box.x + xaxis._offset + xaxis.d2p(3), box.y + yaxis._offset + yaxis.d2p(1)];
    }""")
    _point_at(tab, lambda: (x, y))
    label = tab.page.evaluate("document.querySelector('.ww-plot').layout.meta.commits[3]")
    commit = label.partition("<br>")[0]  # the day is below it
    tab.page.mouse.click(x, y)
    tab.page.wait_for_url(f"**{link}?run=*")
    assert commit in tab.page.locator("#point").inner_text()
    tab.page.get_by_title("All workloads over commits").click()
    tab.page.wait_for_url("**/kernel/rope?**")
    tab.page.get_by_label("Against").select_option("newest")
    tab.page.wait_for_url("**against=newest**")
    assert tab.complaints == []


def test_pictures_of_a_chart_and_of_a_step_are_png_files(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    for path in (f"series/{addresses['slowed']}", f"regressions/{addresses['card']}"):
        tab.open(f"{address}/kernels/{path}")
        tab.page.locator(".ww-share > summary").click()
        with tab.page.expect_download() as download:
            tab.page.get_by_role("button", name="Picture (PNG)").click()
        content = Path(download.value.path()).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 1500
    assert tab.complaints == []
