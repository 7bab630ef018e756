"""Figures of plotly.py in the plotly.js that pages load: it knows all of them, and draws them in the reader's theme."""

from collections.abc import Callable
from xml.etree import ElementTree

import plotly.graph_objects as go
import plotly.io as pio
import pytest

from tests.dashboard.pages.browsing import Tab
from warpwatch.dashboard.web.figures.style import BAND, BLUE, COLOURS, Theme, figure, in_theme, page_json

# What plotly.js does not know or takes for wrong; not what has no effect, such as a place of a label that is hidden.
_FAULTS = """plots => plots.flatMap((plot) => Plotly.validate(plot.data, plot.layout) ?? [])
  .filter((fault) => ["schema", "value", "array", "object"].includes(fault.code)).map((fault) => fault.msg)"""
_COLOURS = """plot => [plot._fullLayout.font.color, plot._fullLayout.xaxis.gridcolor,
  plot._fullData.find((trace) => trace.name === "Triton").line.color]"""


@pytest.mark.parametrize("page", ["series/{profiled}", "roofline", "kernel/rope", "machines/nvidia-h200"])
def test_the_plotly_js_of_pages_knows_every_attribute_of_their_figures(
    page: str, address: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    assert tab.open(f"{address}/kernels/{page.format(**addresses)}") == 200
    plots = tab.page.locator(".ww-plot")
    assert plots.count() > 0
    assert plots.evaluate_all(_FAULTS) == []


def test_another_theme_recolours_a_figure_and_leaves_what_its_reader_did(
    address: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(scheme="light")
    tab.open(f"{address}/kernels/series/{addresses['profiled']}")
    plot = tab.page.locator(".ww-plot").first
    tab.page.locator(".legendtext", has_text="Triton").first.locator("xpath=..").locator(".legendtoggle").click()
    hidden = "plot => plot.data.find((trace) => trace.name === 'Triton').visible === 'legendonly'"
    tab.page.wait_for_function(hidden, arg=plot.element_handle())
    for theme in (Theme.DARK, Theme.LIGHT):
        tab.page.emulate_media(color_scheme=theme.value)
        tab.page.wait_for_function(
            "([plot, theme]) => plot.dataset.drawn === theme", arg=[plot.element_handle(), theme.value]
        )
        colours = [COLOURS[theme][name] for name in ("ink", "grid", "purple")]
        assert plot.evaluate(_COLOURS) == colours
        assert plot.evaluate(hidden)
    assert tab.complaints == []


@pytest.mark.parametrize("page", ["series/{profiled}", "roofline"])
def test_a_reader_takes_the_figure_as_svg_in_the_colours_on_display(
    page: str, address: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(scheme="dark")
    tab.open(f"{address}/kernels/{page.format(**addresses)}")
    for summary in tab.page.locator(".ww-share > summary").all():
        summary.click()
    with tab.page.expect_download() as found:
        tab.page.get_by_role("button", name="Picture (SVG)").click()
    root = ElementTree.parse(found.value.path()).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    red, green, blue = (int(COLOURS[Theme.DARK]["surface"][place : place + 2], 16) for place in (1, 3, 5))
    assert f"rgb({red}, {green}, {blue})" in ElementTree.tostring(root, "unicode")
    assert tab.complaints == []


def test_a_figure_is_whole_in_a_notebook_and_a_page_has_its_template_once() -> None:
    made = figure([go.Scatter(x=[1], y=[2], line={"color": BLUE}, text=[BLUE, "</script>"], fillcolor=BAND)])
    assert made.layout.template.layout.font.color == COLOURS[Theme.LIGHT]["ink"]
    assert "template" not in page_json(made)
    assert "</script>" not in page_json(made)
    dark = in_theme(made, Theme.DARK)
    assert (dark.data[0].line.color, dark.data[0].fillcolor) == (
        COLOURS[Theme.DARK]["blue"],
        COLOURS[Theme.DARK]["band"],
    )
    assert dark.layout.template == pio.templates["warpwatch_dark"]
