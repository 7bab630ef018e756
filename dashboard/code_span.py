"""A stranger's words in Markdown: whatever they hold, they stay words.

In a code span GitHub and GitLab read no emphasis, link, address, HTML, mention (`@name`), issue number or quick action;
escaping sign by sign would leave those that are looked for after the Markdown is read.
"""

import re

_BACKTICKS = re.compile(r"`+")


def code_span(text: str) -> str:
    """The text as a code span; a dash for none."""
    if not text.strip():
        return "–"
    fence = "`" * (longest_run(text) + 1)
    space = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{space}{text}{space}{fence}"


def longest_run(text: str) -> int:
    """Backticks in a row, at most: one more of them make a fence around the text."""
    return max(map(len, _BACKTICKS.findall(text)), default=0)
