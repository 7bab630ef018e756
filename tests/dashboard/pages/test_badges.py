"""Badges for READMEs: whole SVG files that say in words what they show, whatever things are called."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
import requests

from tests.dashboard.pages.browsing import HOSTILE, Tab
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
        "g",
        "rect",
        "clipPath",
        "text",
    }
    return root


def _texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{_SVG}text")]


def test_a_badge_shows_verdict_latency_ratio_and_share_of_light(address: str, addresses: dict[str, str]) -> None:
    texts = {
        shown: _texts(_image(f"{address}/kernels/badge/{shown}/{addresses['slowed']}.svg"))[1]
        for shown in ("verdict", "latency", "ratio", "light")
    }
    assert texts["verdict"] == "regressed"
    assert re.fullmatch(r"[\d.]+ µs", texts["latency"])
    assert re.fullmatch(r"[\d.]+×", texts["ratio"])
    assert re.fullmatch(r"\d+ % of peak", texts["light"])


def test_a_kernels_badge_counts_its_workloads(address: str) -> None:
    root = _image(f"{address}/kernels/badge/verdict.svg?kernel=flash_attention&machine=runner-t4")
    label, text = _texts(root)
    assert label == "flash_attention · runner-t4"
    assert text == "regressed 1 of 6"
    assert requests.get(f"{address}/kernels/badge/verdict.svg?kernel=none", timeout=60).status_code == 404


def test_hostile_names_are_words_in_a_badge(
    address: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    project = f"{address}/{project_in_path(HOSTILE)}"
    tab = new_tab()
    for path in (
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


@pytest.mark.parametrize("colour", [BAD, GOOD, NOTICE, QUIET])
def test_white_words_can_be_read_upon_a_badges_colours(colour: str) -> None:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5  # WCAG 2.2, 1.4.3
