"""Parses a line that accepts regressions: `rope* the exact sine is worth it`, `"*b1, warpwatch)" <= 5 % known`."""

import re
from dataclasses import dataclass

SYNTAX = "<glob> [<= 5 %] <reason>, such as: rope* <= 5 % the exact sine is worth it"
_LINE = re.compile(
    r'(?:"(?P<quoted>[^"]+)"|(?P<glob>[^\s"]+))\s+'
    r"(?:<=?\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*)?"
    r"(?P<reason>[^<\s].*)"  # a reason cannot start with a malformed bound
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceLine:
    """A parsed line."""

    pattern: str
    reason: str
    at_most: float | None  # relative


def parse_acceptance(line: str) -> AcceptanceLine:
    """Parses a glob (in quotes if it has spaces), an optional bound and a reason. Raises ValueError."""
    line = printable(line)
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"expected {SYNTAX}; got {line[:100]!r}")
    percent = match["percent"]
    return AcceptanceLine(
        pattern=match["quoted"] or match["glob"],
        reason=match["reason"],
        at_most=float(percent) / 100 if percent is not None else None,
    )


def printable(text: str) -> str:
    """Untrusted text without control and bidi characters, which terminals obey."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text.strip())
