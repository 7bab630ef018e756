"""How one accepts a regression in a line: `rope* the exact sine is worth it`, `"*b1, warpwatch)" <= 5 % known`."""

import re
from dataclasses import dataclass

WANTED = "<glob> [<= 5 %] <reason>, such as: rope* <= 5 % the exact sine is worth it"
_LINE = re.compile(
    r'(?:"(?P<quoted>[^"]+)"|(?P<glob>[^\s"]+))\s+'
    r"(?:<=?\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*)?"
    r"(?P<reason>[^<\s].*)"  # what begins with a bound that is none is no reason either
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What was said."""

    pattern: str
    reason: str
    at_most: float | None  # relative


def parse_wording(line: str) -> Wording:
    """A glob (in quotes where it has spaces), perhaps how much at most, and why. Raises ValueError."""
    line = shown(line)
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"wanted {WANTED}; got {line[:100]!r}")
    percent = found["percent"]
    return Wording(
        pattern=found["quoted"] or found["glob"],
        reason=found["reason"],
        at_most=float(percent) / 100 if percent is not None else None,
    )


def shown(text: str) -> str:
    """A stranger's words as they can be printed: no escapes to a terminal, nothing that turns the text around."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text.strip())
