"""The colours are distinguishable with red-green colour blindness, and each stands out from its background."""

from itertools import combinations

import numpy as np
import pytest

from warpwatch.dashboard.web.figures.heat_map import _MAX_SPAN, _PALE
from warpwatch.dashboard.web.figures.style import _LOOKS, COLOURS, Theme

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (IEEE TVCG
# 15:6, 2009), table 1, severity 1; on linear RGB.
_VISIONS = {
    "usual": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_LINES = ("blue", "purple", "green", "orange", "grey")  # most often next to each other
_WORDS = ("ink", "muted", "green", "vermillion")  # colours of words


def _linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65."""
    x, y, z = (_TO_XYZ @ np.clip(linear, 0, 1)) / np.array([0.95047, 1.0, 1.08883])
    f = [value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116 for value in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _apart(one: str, other: str, vision: str) -> float:
    """The distance that this eye sees: CIE 1976, where 2.3 is just noticeable side by side."""
    seen = _VISIONS[vision]
    return float(np.linalg.norm(_lab(seen @ _linear(one)) - _lab(seen @ _linear(other))))


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2's ratio."""
    light = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ _linear(colour)) for colour in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("vision", _VISIONS)
@pytest.mark.parametrize("theme", Theme)
def test_worse_and_better_are_distinguishable(theme: Theme, vision: str) -> None:
    colours = COLOURS[theme]
    assert _apart(colours["vermillion"], colours["green"], vision) > 25


@pytest.mark.parametrize("vision", _VISIONS)
@pytest.mark.parametrize("theme", Theme)
def test_implementations_in_one_figure_are_distinguishable(theme: Theme, vision: str) -> None:
    colours = COLOURS[theme]
    near = {pair: _apart(colours[pair[0]], colours[pair[1]], vision) for pair in combinations(_LINES, 2)}
    assert min(near.values()) > 12, sorted(near.items(), key=lambda each: each[1])[:3]


@pytest.mark.parametrize("theme", Theme)
def test_words_are_read_and_marks_are_seen_against_their_ground(theme: Theme) -> None:
    colours = COLOURS[theme]
    for ground in ("surface", "page"):
        for name in _WORDS:
            assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in _LINES:
            assert _contrast(colours[name], colours[ground]) >= 3, (name, ground)


@pytest.mark.parametrize("theme", Theme)
def test_no_two_known_implementations_share_a_colour(theme: Theme) -> None:
    colours = COLOURS[theme]
    shown = dict(zip(COLOURS[Theme.LIGHT].values(), colours.values(), strict=True))
    lines = {name: shown[known.colour] for name, known in _LOOKS.items()}
    near = {pair: _apart(lines[pair[0]], lines[pair[1]], "usual") for pair in combinations(lines, 2)}
    assert min(near.values()) > 24, sorted(near.items(), key=lambda each: each[1])[:3]
    assert min(_contrast(colour, colours["surface"]) for colour in lines.values()) >= 3


def test_cells_of_a_heat_map_that_moved_differently_look_different() -> None:
    for theme, colours in COLOURS.items():
        cell = {name: _linear(colours[name]) for name in ("cell", "cell-better", "cell-worse")}
        ground = _srgb(_linear(colours["surface"]))

        def seen(change: float, end: np.ndarray, *, cell=cell, ground=ground) -> np.ndarray:
            share = min(change / _MAX_SPAN, 1.0)
            mixed = (1 - share) * _srgb(cell["cell"]) + share * _srgb(end)
            return _lab(_from_srgb(_PALE * mixed + (1 - _PALE) * ground))

        for side in ("cell-better", "cell-worse"):
            apart = np.linalg.norm(seen(0.68, cell[side]) - seen(0.39, cell[side]))
            assert apart > 10, (theme, side, apart)


def _srgb(linear: np.ndarray) -> np.ndarray:
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _from_srgb(value: np.ndarray) -> np.ndarray:
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def test_each_colour_of_the_light_theme_becomes_one_of_the_dark() -> None:
    light, dark = COLOURS[Theme.LIGHT], COLOURS[Theme.DARK]
    assert list(light) == list(dark)
    assert len(set(light.values())) == len(light)
