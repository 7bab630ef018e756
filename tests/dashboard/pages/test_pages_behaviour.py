"""What a reader does on the pages: filter, zoom, sort, follow, change the colours; and what a hostile name may not."""

from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Locator, TimeoutError

from tests.dashboard.pages.browsing import HOSTILE, Tab

Place = tuple[float, float]  # CSS pixels of the page's view


def _query(tab: Tab) -> dict[str, list[str]]:
    return parse_qs(urlsplit(tab.page.url).query)


def test_filters_go_into_the_url_and_come_back_from_it(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/")
    tab.page.get_by_label("Machine").select_option("runner-t4")
    tab.page.wait_for_url("**machine=runner-t4**")
    tab.page.get_by_label("Search benchmarks").fill("decode")
    tab.page.get_by_role("button", name="Filter").click()
    tab.page.wait_for_url("**q=decode**")
    assert _query(tab) == {"q": ["decode"], "machine": ["runner-t4"]}
    again = new_tab()
    again.open(tab.page.url)
    rows = again.page.locator("tr.ww-workload")  # few enough to stand open
    assert rows.count() == tab.page.locator("tr.ww-workload").count() > 0
    assert "nvidia-h200" not in again.page.locator("#kernels").inner_text()
    links = rows.locator("a.ww-series")  # a workload is named once, its further implementations by themselves
    assert all("decode" in (link.get_attribute("aria-label") or link.inner_text()) for link in links.all())
    assert again.page.get_by_label("Machine").input_value() == "runner-t4"


def test_a_verdict_is_a_filter_that_a_second_click_takes_away(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/")
    everything = tab.page.locator("tr.ww-line").count()
    chip = tab.page.get_by_role("group", name="Verdicts").get_by_role("link", name="Regressed")
    chip.click()
    tab.page.wait_for_url("**verdict=regressed**")
    assert 0 < tab.page.locator("tr.ww-line").count() < everything
    chip.click()
    tab.page.wait_for_url("**/kernels/")
    assert tab.page.locator("tr.ww-line").count() == everything


def test_the_colours_can_be_chosen_stay_chosen_and_reach_the_figure(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab(scheme="light")
    tab.open(f"{address}/kernels/series/{addresses['slowed']}")
    root = tab.page.locator("html")
    toggle = tab.page.get_by_role("button", name="Colours")
    light_point = tab.page.evaluate(_COLOUR)
    toggle.click()  # auto -> light
    toggle.click()  # light -> dark
    tab.page.wait_for_selector(".ww-plot[data-drawn=dark]")
    assert root.get_attribute("data-bs-theme") == "dark"
    tab.page.wait_for_function(f"light => {_COLOUR} !== light", arg=light_point)
    tab.open(f"{address}/kernels/")
    assert root.get_attribute("data-bs-theme") == "dark"
    assert tab.complaints == []


_COLOUR = "getComputedStyle([...document.querySelectorAll('.ww-plot .point')].at(-1)).fill"  # of a point


def test_a_zoom_is_in_the_url_and_another_reader_sees_it(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/series/{addresses['slowed']}")
    _drag(tab, 0.3, 0.6)
    tab.page.wait_for_url("**from=**")
    shown = _query(tab)
    by_date = new_tab()
    by_date.open(str(tab.page.get_by_role("link", name="Date", exact=True).evaluate("link => link.href")))
    assert _query(by_date)["from"] == shown["from"]
    first, last = by_date.page.evaluate(
        """() => {
          const {xaxis, meta} = document.querySelector('.ww-plot').layout;
          const [from, to] = xaxis.range.map((date) => new Date(date));
          const shown = meta.commits.filter((_, index) => {
            const date = new Date(meta.places[index]);
            return date >= from && date <= to;
          });
          return [shown[0], shown.at(-1)];
        }"""
    )
    assert [first, last] == [shown["from"][0], shown["to"][0]]
    tab.page.get_by_role("link", name="Whole range").click()
    tab.page.wait_for_url(lambda url: "from=" not in url)


def _drag(tab: Tab, start: float, end: float) -> None:
    box = tab.page.locator(".ww-plot .nsewdrag").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + box["width"] * start, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * end, middle, steps=6)
    tab.page.mouse.up()


def test_a_point_under_the_roof_leads_to_its_series(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/roofline")
    _click_point(tab, "warpwatch", 0)
    tab.page.wait_for_url("**/kernels/series/*")


def _click_point(tab: Tab, trace: str, index: int) -> None:
    tab.page.mouse.click(*_point_at(tab, lambda: _place_of_point(tab, trace, index)))


def _point_at(tab: Tab, place: Callable[[], Place]) -> Place:
    """Moves onto a place as a hand does, a pixel to and fro, until the label is there; returns where it is.

    plotly answers movements alone. One that it did not see, or that missed a figure still settling, is never made up
    for by waiting under a pointer that rests; so each try computes the place anew and moves.
    """
    label = tab.page.locator(".hoverlayer .hovertext")
    for nudge in (0, 1) * 15:
        x, y = place()
        tab.page.mouse.move(x + nudge, y)
        try:
            label.first.wait_for(timeout=1000)
            return x + nudge, y
        except TimeoutError:
            continue
    raise AssertionError("no label at a point of the figure")


def _place_of_point(tab: Tab, trace: str, index: int) -> Place:
    x, y = tab.page.evaluate(
        """([name, index]) => {
          const plot = document.querySelector('.ww-plot');
          const trace = plot._fullData.find((each) => each.name === name && each.mode.includes('markers'));
          const box = plot.getBoundingClientRect();
          const {xaxis, yaxis} = plot._fullLayout;
          return [box.x + xaxis._offset + xaxis.d2p(trace.x[index]), box.y + yaxis._offset + yaxis.d2p(trace.y[index])];
        }""",
        [trace, index],
    )
    return x, y


def test_the_table_next_to_the_roofline_sorts_by_any_column(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/roofline")
    tab.page.get_by_role("button", name="Gain").click()
    gains = tab.page.locator("tbody td:last-child").evaluate_all("cells => cells.map((c) => +c.dataset.value)")
    assert len(gains) > 5
    assert gains == sorted(gains)
    tab.page.get_by_role("button", name="Gain").click()
    assert tab.page.get_by_role("columnheader", name="Gain").get_attribute("aria-sort") == "descending"


def test_a_page_is_whole_before_its_figure_arrives_and_does_not_move_when_it_does(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    tab = new_tab()
    held = []
    tab.page.route("**/plotly-cartesian.min.js*", lambda route: held.append(route))
    # Not "load", which would wait for the script where the figure is near the screen before everything else has come.
    tab.page.goto(f"{address}/kernels/series/{addresses['slowed']}", wait_until="domcontentloaded")
    heading = tab.page.get_by_role("heading", name="Changepoints")
    before = heading.bounding_box()
    assert tab.page.locator("#changes-heading").is_visible()
    while not held:
        tab.page.wait_for_timeout(20)
    held[0].continue_()
    tab.page.wait_for_selector(".ww-plot[data-drawn]")
    assert heading.bounding_box() == before


def test_hostile_names_are_only_text(address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]) -> None:
    project = quote(HOSTILE.replace("/", "~1"), safe="~")
    for path in (
        "",
        "/",
        f"/{project}/",
        f"/{project}/series",
        f"/{project}/series/{addresses['hostile']}",
        f"/{project}/machines",
        f"/{project}/commits",
        f"/{project}/regressions",
        f"/{project}/roofline",
        f"/{project}/?q={quote(HOSTILE)}",
        f"/{project}/commit/{quote(HOSTILE, safe='')}",
    ):
        tab = new_tab(width=390)
        tab.open(address + path)
        tab.page.wait_for_timeout(50)
        assert tab.page.title() != "owned"
        assert tab.page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
        assert "49" not in tab.page.title()
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert [complaint for complaint in tab.complaints if "404" not in complaint] == []


def test_hovering_a_hostile_point_shows_its_name_as_text(
    address: str, new_tab: Callable[..., Tab], addresses: dict[str, str]
) -> None:
    project = quote(HOSTILE.replace("/", "~1"), safe="~")
    tab = new_tab()
    tab.open(f"{address}/{project}/series/{addresses['hostile']}")
    _point_at(tab, lambda: _middle(tab.page.locator(".ww-plot .point").first))
    assert tab.page.title() != "owned"
    assert tab.complaints == []


def _middle(element: Locator) -> Place:
    box = element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_every_line_of_the_overview_shows_its_machine_at_any_width(new_tab: Callable[..., Tab], address: str) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/?q=rope")
    for width in (390, 800, 1280, 1440):
        tab.resize(width)
        rows = tab.page.locator(".ww-kernels tbody tr").all_inner_texts()
        assert len(rows) > 2
        for row in rows:
            assert ("runner-t4" in row) + ("nvidia-h200" in row) == 1, (row, width)
