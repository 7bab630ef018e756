"""Untrusted texts in Markdown, without any effect of their own.

In a code span GitHub and GitLab parse no emphasis, link, address, HTML, mention (`@name`), issue number or quick
action. Escaping single characters is not enough: mentions and issue numbers are found after the Markdown is parsed.
"""

import re

_BACKTICKS = re.compile(r"`+")
_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_PLAIN = re.compile(r"[\w .,;:=%()+–−→/×·-]*")
_LINK = re.compile(r":(?=//)|/(?=/)|www(?=\.)", re.IGNORECASE)
# What chats, forges and mail programs look for in plain text: names, tags, links, headings.
_ACTIVE = re.compile(rf"@|<|`|#|\](?=[(\[])|{_LINK.pattern}", re.IGNORECASE)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_BREAK = "\\g<0>\N{ZERO WIDTH SPACE}"


def code_span(text: str) -> str:
    """The text as a code span in one line; a dash for none."""
    text = _BREAKS.sub(" ", text)
    if not text.strip():
        return "–"
    fence = "`" * (longest_run(text) + 1)
    space = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{space}{text}{space}{fence}"


def inert(text: str) -> str:
    """The text as it is where it can be nothing but words and numbers, else as a code span."""
    return text if _PLAIN.fullmatch(text) and not _LINK.search(text) else code_span(text)


def defused(text: str) -> str:
    """The text in one line, for where no code span can stand, such as a title.

    What would be a mention, a link, a tag or a heading is broken by a sign that has no width.
    """
    return _ACTIVE.sub(_BREAK, _BREAKS.sub(" ", text).strip())


def without_links(text: str) -> str:
    """The text with what programs would make a link of broken by a sign that has no width."""
    return _LINK.sub(_BREAK, text)


def without_links_in_spans(markdown: str) -> str:
    """For programs that know no code spans, or none of several backticks, and make a link of each address in them."""
    return _SPAN.sub(lambda span: f"{span[1]}{without_links(span[2])}{span[1]}", markdown)


def longest_run(text: str) -> int:
    """Backticks in a row, at most: one more of them make a fence around the text."""
    return max(map(len, _BACKTICKS.findall(text)), default=0)
