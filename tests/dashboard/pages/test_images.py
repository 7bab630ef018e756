"""Badges and pictures for READMEs: whole SVG files that say in words what they show, whatever things are called."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
import requests

from tests.dashboard.pages.browsing import HOSTILE, Tab
from warpwatch.dashboard.web.figures.still_images import Scale
from warpwatch.dashboard.web.figures.svg import Theme, colours, drawing, element, words
from warpwatch.dashboard.web.pages.badges import BAD, GOOD, NOTICE, QUIET, badge
from warpwatch.dashboard.web.urls import project_in_path

_SVG = "{http://www.w3.org/2000/svg}"


def _image(url: str) -> ElementTree.Element:
    answer = requests.get(url, timeout=60)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/svg+xml")
    assert "max-age=300" in answer.headers["Cache-Control"]
    again = requests.get(url, timeout=60, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    root = ElementTree.fromstring(answer.content)
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.findtext(f"{_SVG}title")
    assert {each.tag.removeprefix(_SVG) for each in root.iter()} <= {
        "svg",
        "title",
        "desc",
        "g",
        "rect",
        "clipPath",
        "text",
        "line",
        "polyline",
        "circle",
    }
    return root


def _said(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{_SVG}text")]


def test_a_badge_tells_verdict_latency_ratio_and_share_of_light(address: str, addresses: dict[str, str]) -> None:
    told = {
        shown: _said(_image(f"{address}/kernels/badge/{shown}/{addresses['slowed']}.svg"))[1]
        for shown in ("verdict", "latency", "ratio", "light")
    }
    assert told["verdict"] == "regressed"
    assert re.fullmatch(r"[\d.]+ µs", told["latency"])
    assert re.fullmatch(r"[\d.]+×", told["ratio"])
    assert re.fullmatch(r"\d+ % of peak", told["light"])


def test_a_kernels_badge_counts_its_workloads(address: str) -> None:
    root = _image(f"{address}/kernels/badge/verdict.svg?kernel=flash_attention&machine=runner-t4")
    label, told = _said(root)
    assert label == "flash_attention · runner-t4"
    assert told == "regressed 1 of 6"
    assert requests.get(f"{address}/kernels/badge/verdict.svg?kernel=none", timeout=60).status_code == 404


def test_a_history_is_drawn_in_the_colours_of_both_themes(address: str, addresses: dict[str, str]) -> None:
    url = f"{address}/kernels/series/{addresses['slowed']}/history.svg"
    light, dark = _image(url), _image(f"{url}?theme=dark")
    for root, theme in ((light, Theme.LIGHT), (dark, Theme.DARK)):
        lines = root.findall(f"{_SVG}polyline")
        assert lines[-3].get("stroke") == colours(theme)["--ww-blue"]  # two levels lie upon it
        assert root.find(f"{_SVG}rect").get("fill") == colours(theme)["--ww-surface"]  # type: ignore[union-attr]
    assert any(re.fullmatch(r"▲ \+[34]\.\d %", text) for text in _said(light))
    assert "+4" in light.findtext(f"{_SVG}desc", "") or "+3" in light.findtext(f"{_SVG}desc", "")


def test_a_roofline_has_roofs_and_hollow_baselines(address: str) -> None:
    root = _image(f"{address}/kernels/roofline.svg?machine=nvidia-h200")
    circles = root.findall(f"{_SVG}circle")
    assert {each.get("fill") == "none" for each in circles} == {True, False}
    assert len(root.findall(f"{_SVG}polyline")) == 4  # a slope and a ceiling of fp16, promised and measured
    assert requests.get(f"{address}/kernels/roofline.svg?machine=none", timeout=60).status_code == 404
    assert requests.get(f"{address}/young/series/x/history.svg", timeout=60).status_code == 404


def test_hostile_names_are_words_in_a_picture(
    address: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    project = f"{address}/{project_in_path(HOSTILE)}"
    tab = new_tab()
    for path in (
        f"series/{addresses['hostile']}/history.svg",
        f"badge/verdict/{addresses['hostile']}.svg",
        "badge/verdict.svg",
    ):
        root = _image(f"{project}/{path}")
        assert HOSTILE[:20] in (root.get("aria-label") or "")
        tab.open(f"{project}/{path}")
        assert tab.page.evaluate("document.title") != "owned"
        assert tab.page.evaluate("document.querySelectorAll('script, img').length") == 0


@pytest.mark.parametrize("text", [HOSTILE, "\x00\x1b[0m", "]]>", "\ud800", "a" * 500, "", "漢字 · µs"])
def test_any_text_makes_a_file_that_parses(text: str) -> None:
    made = badge(text, text, QUIET, text)
    root = ElementTree.fromstring(made.encode())
    assert len(root.findall(f".//{_SVG}text")) == 2
    assert len(made) < 4000
    ElementTree.fromstring(drawing(1, 1, text, element("g", words(text), fill=text)).encode())


@pytest.mark.parametrize("colour", [BAD, GOOD, NOTICE, QUIET])
def test_white_words_can_be_read_upon_a_badges_colours(colour: str) -> None:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5  # WCAG 2.2, 1.4.3


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1e-6, 1.07e-6), (-3.0, 400.0), (99.9, 100.1)])
def test_ticks_are_round_few_and_within_the_axis(low: float, high: float) -> None:
    ticks = Scale(low=low, high=high).ticks()
    assert 3 <= len(ticks) <= 7
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    assert Scale(low=0.5, high=2000.0, is_log=True).ticks() == [1.0, 10.0, 100.0, 1000.0]
