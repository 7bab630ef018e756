"""SVG as text: elements with everything escaped, and the colours of the pages for a file that stands alone."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

FONT = "Verdana, 'DejaVu Sans', Geneva, sans-serif"
_CSS = Path(__file__).resolve().parents[1] / "static" / "warpwatch.css"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Shares of the font's size that Verdana takes, near enough: `textLength` makes the text as wide as it was thought.
_NARROW, _WIDE, _USUAL, _BROAD = 0.36, 0.95, 0.64, 1.1


class Theme(StrEnum):
    """What the picture lies upon."""

    LIGHT = "light"
    DARK = "dark"


def element(name: str, *children: str, **attributes: object) -> str:
    """An element whose attributes are escaped; children are elements or `words`. `font_size` becomes font-size.

    Attributes of None are left out.
    """
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(_clean(_number(value)))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{said}>{''.join(children)}</{name}>" if children else f"<{name}{said}/>"


def words(text: str) -> str:
    """Text as an element's content."""
    return escape(_clean(text))


def drawing(width: float, height: float, title: str, *children: str, description: str = "") -> str:
    """A whole file. The title is what a screen reader says, and what shows under the pointer."""
    told = [element("title", words(title)), *([element("desc", words(description))] if description else [])]
    # viewBox and textLength keep their capitals: attribute names of SVG are not all in lower case.
    return element(
        "svg",
        *told,
        *children,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        aria_label=title,
        font_family=FONT,
    )


def text_width(text: str, size: float) -> float:
    """About how wide a text is, in the units of the font's size."""
    return size * sum(map(_share, text))


def colours(theme: Theme) -> Mapping[str, str]:
    """The pages' colours by their CSS variables, as static/warpwatch.css has them."""
    return _themes()[theme]


@cache
def _themes() -> dict[Theme, dict[str, str]]:
    """The first block of the style sheet that sets a colour is the light one; the dark one sets what differs."""
    found: dict[Theme, dict[str, str]] = {Theme.LIGHT: {}, Theme.DARK: {}}
    for name, value in re.findall(r"(--ww-[\w-]+):\s*([^;]+);", _CSS.read_text()):
        theme = Theme.DARK if name in found[Theme.LIGHT] else Theme.LIGHT
        found[theme].setdefault(name, value)
    return {Theme.LIGHT: found[Theme.LIGHT], Theme.DARK: found[Theme.LIGHT] | found[Theme.DARK]}


def _share(sign: str) -> float:
    if sign in "ilIj.,:;'|!()[]/ tfr1":
        return _NARROW
    if sign in "mwMW%@":
        return _WIDE
    return _USUAL if sign.isascii() or sign in "µ×–−·…“”’" else _BROAD


def _clean(text: str) -> str:
    """XML has no way to write control characters."""
    return _NOT_XML.sub("\ufffd", text)


def _number(value: object) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)
