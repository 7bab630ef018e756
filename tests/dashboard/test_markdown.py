"""A stranger's words in Markdown stay words."""

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwatch.dashboard.text.markdown import code_span

BROKEN = ["a\n\n# PWN", "\r\n\r\n> x", "a\u2028\u2028- b", "a\n\n```\nb"]
HOSTILE = [
    *BROKEN,
    "<img src=x onerror=alert(1)>",
    "@everyone",
    "[a](https://evil)",
    "`` ` ``",
    "#1 **x** https://evil",
    "`",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_it_is_read_as_words_by_githubs_own_parser(text: str) -> None:
    html = cmarkgfm.github_flavored_markdown_to_html(f"said {code_span(text)} so")
    assert html.startswith("<p>said <code>")
    assert html.endswith("</code> so</p>\n")
    assert "<img" not in html
    assert "<a " not in html


@given(st.text(alphabet="`a <*[@", min_size=1, max_size=20).filter(str.strip))
def test_it_is_one_span_whatever_backticks_it_holds(text: str) -> None:
    html = cmarkgfm.github_flavored_markdown_to_html(f"x{code_span(text)}x")
    assert html.count("<code>") == 1
    assert html.startswith("<p>x<code>")
    assert html.endswith("</code>x</p>\n")
