"""The colours of both themes, and how an implementation looks in every figure: always the same colour and line.

The colours are Okabe and Ito's ("Color Universal Design", 2008), told apart with any colour vision, and four more, so
that no two implementations of the table share one. Vermillion is kept for regressions. static/warpwatch.css states the
values; constants here are those of the light theme, in which every figure is made (themes.py makes it dark).
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_CSS = Path(__file__).resolve().parents[1] / "static" / "warpwatch.css"


class Theme(StrEnum):
    """What a figure lies upon."""

    LIGHT = "light"
    DARK = "dark"


def _colours(theme: Theme) -> dict[str, str]:
    """By name: "blue" is what the style sheet calls --ww-blue."""
    blocks = re.findall(rf'\[data-bs-theme="{theme}"\] {{(.*?)}}', _CSS.read_text(), re.DOTALL)
    return dict(re.findall(r"--ww-([\w-]+):\s*([^;]+);", blocks[0]))


COLOURS: Mapping[Theme, Mapping[str, str]] = {theme: _colours(theme) for theme in Theme}
_LIGHT = COLOURS[Theme.LIGHT]
INK, MUTED, GRID, SURFACE = (_LIGHT[name] for name in ("ink", "muted", "grid", "surface"))
BLUE, ORANGE, GREEN, GREY = (_LIGHT[name] for name in ("blue", "orange", "green", "grey"))
BAND = _LIGHT["band"]
WORSE, BETTER = _LIGHT["vermillion"], GREEN
CELL, CELL_BETTER, CELL_WORSE = (_LIGHT[name] for name in ("cell", "cell-better", "cell-worse"))
# Of canaries by their place in the order of their workloads' names: colour, dash, symbol.
CANARIES = (
    (GREY, "solid", "square"),
    (_LIGHT["sky"], "dash", "cross"),
    (_LIGHT["purple"], "dot", "diamond"),
    (GREEN, "dashdot", "triangle-up"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Name, colour and line of one implementation."""

    label: str
    colour: str
    dash: str


_LOOKS = {
    name: Look(label=label, colour=_LIGHT[colour], dash=dash)
    for name, label, colour, dash in (
        ("warpwatch", "warpwatch", "blue", "solid"),
        ("triton", "Triton", "purple", "solid"),
        ("unfused", "warpwatch, unfused", "indigo", "solid"),
        ("naive", "naive", "yellow", "solid"),
        ("unquantized", "warpwatch, unquantized", "brown", "solid"),
        ("sdpa", "SDPA", "green", "dash"),
        ("sdpa_flash", "SDPA, FlashAttention-2", "lime", "longdash"),
        ("cublas", "cuBLAS", "orange", "dash"),
        ("eager", "PyTorch eager", "grey", "dot"),
        ("torch_compile", "torch.compile", "teal", "dashdot"),
    )
}
_FURTHER = ("orange", "teal", "purple", "green", "yellow", "indigo", "brown", "lime")


def look(implementation: str | None) -> Look:
    """The look of an implementation; one without a row in the table gets the same colour in every process."""
    if implementation is None:
        return _LOOKS["warpwatch"]
    if implementation in _LOOKS:
        return _LOOKS[implementation]
    colour = _FURTHER[zlib.crc32(implementation.encode()) % len(_FURTHER)]
    return Look(label=implementation, colour=_LIGHT[colour], dash="longdash")
