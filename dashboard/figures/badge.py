"""A badge for a README: what it is about on the left, what is so on the right. The word says what the colour does."""

from warpwatch.dashboard.figures.svg import drawing, element, text_width, words

_SIZE, _HEIGHT, _ROOM, _MOST = 11.0, 20.0, 6.0, 60
_LABEL = "#3d4751"
QUIET, GOOD, BAD, NOTICE = "#4d5964", "#006b4e", "#a63f00", "#005a8f"  # white upon each is read at 4.5:1 and more


def badge(label: str, message: str, colour: str, title: str) -> str:
    """The badge as an SVG file."""
    left, right = (_part(text) for text in (label, message))
    whole = left + right
    return drawing(
        whole, _HEIGHT, title,
        element("clipPath", element("rect", width=whole, height=_HEIGHT, rx=3), id="r"),
        element(
            "g",
            element("rect", width=left, height=_HEIGHT, fill=_LABEL),
            element("rect", x=left, width=right, height=_HEIGHT, fill=colour),
            clip_path="url(#r)",
        ),
        element(
            "g", _text(label, left / 2, left), _text(message, left + right / 2, right), fill="#fff",
            font_size=_SIZE, text_anchor="middle",
        ),
    )  # fmt: skip


def _part(text: str) -> float:
    return round(text_width(_cut(text), _SIZE) + 2 * _ROOM, 1)


def _text(text: str, middle: float, width: float) -> str:
    """As wide as its half was made for, whatever font there is."""
    return element("text", words(_cut(text)), x=middle, y=14, textLength=width - 2 * _ROOM)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
