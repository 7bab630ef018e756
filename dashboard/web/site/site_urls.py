"""Files of the exported site: which URLs are included, and their names."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter

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
