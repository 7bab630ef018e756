"""A page of the server as a page among files: its links lead to files, and what wants a server is gone."""

import re
from collections.abc import Callable
from html import escape, unescape
from html.parser import HTMLParser

_LINKS = re.compile(r'\s(href|src|data-plotly|data-[a-z-]*url)="([^"]*)"')
_GONE_WITHOUT_TARGET = ("btn", "data-access-menu", "page-link", "data-keeps-range")
_VOID = frozenset({"input", "br", "img", "meta", "link", "hr", "wbr", "source"})


class Rewriting(HTMLParser):
    """Give it a page with `feed` and take `text`.

    `target` tells what an address of the application becomes, None where it is not among the files. A link without a
    target becomes words, or goes where it was a button; forms that ask a server go whole.
    """

    def __init__(self, target: Callable[[str], str | None]) -> None:
        super().__init__(convert_charrefs=False)
        self._target = target
        self._out: list[str] = []
        self._gone: list[str] = []  # the open elements within what is left out
        self._anchors: list[str] = []  # how each open link ends

    @property
    def text(self) -> str:
        """The page so far."""
        return "".join(self._out)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        raw = self.get_starttag_text() or ""
        if self._gone:
            if tag not in _VOID:
                self._gone.append(tag)
            return
        is_question = tag == "form" and told.get("method") != "dialog"
        address = told.get("href")
        target = self._target(address) if tag == "a" and address else ""
        if is_question or (target is None and any(word in raw for word in _GONE_WITHOUT_TARGET)):
            self._gone.append(tag)
            return
        if tag == "a":
            self._anchors.append("a" if target is not None else "span")
            raw = raw if target is not None else re.sub(r"^<a\b", "<span", raw)
        self._out.append(_LINKS.sub(self._rewritten, raw))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._put(_LINKS.sub(self._rewritten, self.get_starttag_text() or ""))

    def handle_endtag(self, tag: str) -> None:
        if self._gone:
            if tag in self._gone:
                while self._gone.pop() != tag:
                    pass
            return
        self._out.append(f"</{self._anchors.pop() if tag == 'a' and self._anchors else tag}>")

    def handle_data(self, data: str) -> None:
        self._put(data)

    def handle_entityref(self, name: str) -> None:
        self._put(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._put(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self._put(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._put(f"<!{decl}>")

    def _put(self, text: str) -> None:
        if not self._gone:
            self._out.append(text)

    def _rewritten(self, found: re.Match[str]) -> str:
        target = self._target(unescape(found[2]))
        return "" if target is None else f' {found[1]}="{escape(target)}"'
