"""Files of the exported site: which URLs are included, their names, and their pages with rewritten links."""

import hashlib
import posixpath
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urldefrag, urljoin, urlsplit

import orjson
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter

from ..urls import project_in_path

_PLAIN = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9._~-]{0,79}")

# Pages that need a server, or are not public.
_NEVER = frozenset({"login", "tokens", "search", "health", "point"})

_NEVER_VIEWS = frozenset({"series.figure", "regressions.one"})

# Query parameters that select other rows. Others show the same rows differently, or would make up most of the site.
_PARAMETERS: Mapping[str, frozenset[str]] = {
    "overview.show": frozenset({"page", "machine", "kernel", "view"}),
    "series.search": frozenset({"page"}),
    "roofline.show": frozenset({"machine"}),
    "regressions.show": frozenset({"page", "kind", "direction"}),
    "commits.index": frozenset({"page"}),
}

_DATA = re.compile(r"^/api/projects(/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteContent:
    """Projects, series and commits that get pages."""

    projects: frozenset[str]
    series: frozenset[str]  # keys that get a page
    commits: frozenset[str]  # hashes that do
    has_all_series: bool


def file_of(address: str, choice: SiteContent, routes: MapAdapter) -> str | None:
    """Path of the URL's file within the site; None if it is not included. The URL begins with a slash."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path.startswith("/"):
        return None
    path = unquote(parts.path)
    if path.startswith("/static/"):
        return path[1:]
    query = dict(parse_qsl(parts.query))
    if _DATA.match(parts.path):
        return _named([*_segments(parts.path)], query, ".csv" if query.pop("format", "") == "csv" else ".json")
    if parts.path in ("/", "/api/", "/api/openapi.json"):
        return {"/": "index.html", "/api/": "api/index.html"}.get(parts.path, "api/openapi.json")
    try:
        endpoint, names = routes.match(path)
    except HTTPException:
        return None
    if not _is_chosen(endpoint, names, query, choice):
        return None
    segments = _segments(parts.path)
    if parts.path.endswith("/"):
        return _named([*segments, "index"], query, ".html")
    stem, dot, kind = segments[-1].rpartition(".")
    if dot and kind in {"svg", "json", "csv"}:
        return _named([*segments[:-1], stem], query, f".{kind}")
    return _named(segments, query, ".html")


def _is_chosen(endpoint: str, names: Mapping[str, str], query: Mapping[str, str], choice: SiteContent) -> bool:
    if endpoint.partition(".")[0] in _NEVER or endpoint in _NEVER_VIEWS or names.get("project") not in choice.projects:
        return False
    if set(query) - _PARAMETERS.get(endpoint, frozenset()):
        return False
    if (
        "key" in names
        and names["key"] not in choice.series
        and not (choice.has_all_series and names["key"] == "SERIES")
    ):
        return False
    return "prefix" not in names or names["prefix"] in choice.commits


def _segments(path: str) -> list[str]:
    """Parts of a path as file names."""
    return [plain_name(unquote(part)) for part in path.strip("/").split("/")]


def plain_name(name: str) -> str:
    """A file name for any system; other names are replaced by a hash."""
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', name)[:40].strip('-') or 'x'}-{digest}"


def _named(segments: list[str], query: Mapping[str, str], ending: str) -> str:
    suffix = "".join(f"--{plain_name(name)}-{plain_name(value)}" for name, value in sorted(query.items()) if value)
    return "/".join(segments) + suffix + ending


_LINKS = re.compile(r'\s(href|src|data-plotly|data-[a-z-]*url)="([^"]*)"')

_GONE_WITHOUT_TARGET = ("btn", "data-access-menu", "page-link", "data-keeps-range")

_VOID = frozenset({"input", "br", "img", "meta", "link", "hr", "wbr", "source"})


class PageRewriter(HTMLParser):
    """Rewrite links of a page (`feed`, then `text`) to files.

    `target` maps a URL to a file, None if it is not included: then links become text, and buttons are removed. Forms
    are removed.
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
        attributes = dict(attrs)
        raw = self.get_starttag_text() or ""
        if self._gone:
            if tag not in _VOID:
                self._gone.append(tag)
            return
        is_server_form = tag == "form" and attributes.get("method") != "dialog"
        address = attributes.get("href")
        target = self._target(address) if tag == "a" and address else ""
        if is_server_form or (target is None and any(word in raw for word in _GONE_WITHOUT_TARGET)):
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


_STATIC = Path(__file__).resolve().parents[1] / "static"

# Anonymous, not the local user; pages then name no address of a server.
_ANONYMOUS = {"REMOTE_ADDR": "192.0.2.1", "warpwatch.site": True}

_LISTS = ("overview", "series", "commits", "regressions", "alerts", "machines", "canaries")

_PART = 1000  # items per request


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSummary:
    """Size of a written site."""

    files: int
    bytes: int
    seconds: float
    faults: tuple[str, ...]  # URLs with errors


def write_site(app: Flask, folder: Path, choice: SiteContent, *, badges: bool) -> SiteSummary:
    """Write all pages and their data below the folder; creates it, and overwrites existing files."""
    began = time.monotonic()
    app.config["ONLY_PROJECTS"] = choice.projects  # other projects are not listed
    client, routes = app.test_client(), app.url_map.bind("localhost")
    shutil.copytree(_STATIC, folder / "static", dirs_exist_ok=True)
    (folder / ".nojekyll").touch()  # GitHub Pages would skip files
    faults: list[str] = []
    waiting = deque(_start_urls(choice, badges=badges))
    seen = {file_of(address, choice, routes) for address in waiting} | {None}

    def target(address: str, page: str, own: str) -> str | None:
        """Target of a link: another site, an anchor, or a file, which is queued if it is new."""
        plain, mark = urldefrag(address)
        if not plain:
            return address
        whole = urljoin(page, plain)
        if not whole.startswith("/"):
            return address  # another site's
        file = file_of(whole, choice, routes)
        if file is None:
            return None
        if file not in seen and not file.startswith("static/") and not file.endswith("/SERIES.html"):
            seen.add(file)
            waiting.append(whole)
        relative = posixpath.relpath(file, posixpath.dirname(own) or ".")
        return quote(relative, safe="/~") + (f"#{mark}" if mark else "")

    while waiting:
        address = waiting.popleft()
        file = file_of(address, choice, routes)
        if file is None:
            continue
        is_redirect = file == "index.html" and len(choice.projects) == 1
        if is_redirect:
            (overview,) = choice.projects
            content: bytes | None = _redirect_page(str(file_of(f"/{project_in_path(overview)}/", choice, routes)))
        elif address.startswith("/api/projects/") and address.partition("?")[0].endswith(_LISTS):
            content = _list(client, f"{address}{'&' if '?' in address else '?'}limit={_PART}")
        else:
            content = _content(client, address, faults)
        if content is None:
            continue
        if file.endswith(".html") and not is_redirect:  # whose link is one among files already
            page = PageRewriter(partial(target, page=address, own=file))
            page.feed(content.decode())
            page.close()
            content = page.text.encode()
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return SiteSummary(files=len(sizes), bytes=sum(sizes), seconds=time.monotonic() - began, faults=tuple(faults))


def _start_urls(choice: SiteContent, *, badges: bool) -> Iterable[str]:
    """URLs to start from, with data that no page links to."""
    yield from ("/", "/api/", "/api/openapi.json")
    for project in sorted(choice.projects):
        name = project_in_path(project)
        yield from (f"/{name}/", f"/api/projects/{name}/limits")
        for part in (*_LISTS, "roofline"):
            yield from (f"/api/projects/{name}/{part}", f"/api/projects/{name}/{part}?format=csv")
    for address in (f"/{project_in_path(project)}" for project in sorted(choice.projects) if badges):
        yield f"{address}/badge/verdict.svg"
        for key in sorted(choice.series):
            yield from (f"{address}/badge/{shown}/{key}.svg" for shown in ("verdict", "latency", "ratio", "light"))


def _content(client: FlaskClient, address: str, faults: list[str]) -> bytes | None:
    """Content of a URL, or of the one that it redirects to; None if there is none."""
    answer = client.get(address, environ_overrides=_ANONYMOUS, follow_redirects=True)
    if answer.status_code == 404 and any(part in address for part in ("/roofline", "/badge/")):
        return None  # a project need not have one
    if answer.status_code != 200:
        faults.append(f"{address}: {answer.status_code}")
        return None
    return answer.get_data()


def _list(client: FlaskClient, address: str) -> bytes:
    """All pages of an API list as one, as JSON or CSV."""
    answer = client.get(address, environ_overrides=_ANONYMOUS)
    parts = [answer]
    while next_url := _next(answer.headers.get("Link")):
        answer = client.get(next_url, environ_overrides=_ANONYMOUS)
        parts.append(answer)
    if answer.mimetype == "text/csv":
        return b"".join(part.get_data().split(b"\r\n", 1)[1] if n else part.get_data() for n, part in enumerate(parts))
    whole = parts[0].get_json()
    items = [item for part in parts for item in part.get_json()["items"]]
    return orjson.dumps({**whole, "items": items, "limit": max(len(items), 1), "next": None}) + b"\n"


def _next(link: str | None) -> str | None:
    return link.partition("<")[2].partition(">")[0] if link else None


def _redirect_page(file: str) -> bytes:
    """The redirect page of a site with one project."""
    link = escape(quote(file))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>warpwatch</title>'
        f'<meta http-equiv="refresh" content="0; url={link}"></head>'
        f'<body><main><h1>warpwatch</h1><p><a href="{link}">The overview</a></p></main></body></html>\n'
    ).encode()
