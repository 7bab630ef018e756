"""Writes the site: asks the application for a page, writes it, and goes on with what it links to."""

import posixpath
import shutil
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import quote, urldefrag, urljoin

import orjson
from flask import Flask
from flask.testing import FlaskClient

from warpwatch.dashboard.pages.addresses import project_in_path
from warpwatch.dashboard.site.choice import Choice, file_of
from warpwatch.dashboard.site.rewriting import Rewriting

_STATIC = Path(__file__).resolve().parents[1] / "static"
_SOMEBODY = {"REMOTE_ADDR": "192.0.2.1"}  # not this machine's own user, whose name and rights a page would show
_LISTS = ("overview", "series", "commits", "regressions", "alerts", "health-alerts", "machines", "canaries")
_PART = 1000  # of a list, asked for at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a site came to."""

    files: int
    bytes: int
    seconds: float
    faults: tuple[str, ...]  # addresses that did not answer as they should


def write_site(app: Flask, folder: Path, choice: Choice, *, images: bool) -> Written:
    """Writes every chosen page and its data under the folder, which need not exist. What is there is overwritten."""
    began = time.monotonic()
    app.config["ONLY_PROJECTS"] = choice.projects  # who publishes one need not name the others
    client, routes = app.test_client(), app.url_map.bind("localhost")
    shutil.copytree(_STATIC, folder / "static", dirs_exist_ok=True)
    (folder / ".nojekyll").touch()  # GitHub Pages leaves files out else
    faults: list[str] = []
    waiting = deque(_beginnings(choice, images=images))
    seen = {file_of(address, choice, routes) for address in waiting} | {None}

    def target(address: str, page: str, own: str) -> str | None:
        """Where a link of a page leads: another site, a place in the page, a file. New files wait in the line."""
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
        leads_on = file == "index.html" and len(choice.projects) == 1
        if leads_on:
            (overview,) = choice.projects
            content: bytes | None = _leads_on(str(file_of(f"/{project_in_path(overview)}/", choice, routes)))
        elif address.startswith("/api/projects/") and address.partition("?")[0].endswith(_LISTS):
            content = _list(client, f"{address}{'&' if '?' in address else '?'}limit={_PART}")
        else:
            content = _answer(client, address, faults)
        if content is None:
            continue
        if file.endswith(".html") and not leads_on:  # whose link is one among files already
            page = Rewriting(partial(target, page=address, own=file))
            page.feed(content.decode())
            page.close()
            content = page.text.encode()
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Written(files=len(sizes), bytes=sum(sizes), seconds=time.monotonic() - began, faults=tuple(faults))


def _beginnings(choice: Choice, *, images: bool) -> Iterable[str]:
    """Where the links begin; what no page links to, such as data, is named here."""
    yield from ("/", "/api/", "/api/openapi.json")
    for project in sorted(choice.projects):
        name = project_in_path(project)
        yield from (f"/{name}/", f"/api/projects/{name}/limits")
        for part in (*_LISTS, "roofline"):
            yield from (f"/api/projects/{name}/{part}", f"/api/projects/{name}/{part}?format=csv")
    for address in (f"/{project_in_path(project)}" for project in sorted(choice.projects) if images):
        yield from (f"{address}/badge/verdict.svg", f"{address}/roofline.svg", f"{address}/roofline.svg?theme=dark")
        for key in sorted(choice.series):
            yield from (f"{address}/series/{key}/history.svg", f"{address}/series/{key}/history.svg?theme=dark")
            yield from (f"{address}/badge/{shown}/{key}.svg" for shown in ("verdict", "latency", "ratio", "light"))


def _answer(client: FlaskClient, address: str, faults: list[str]) -> bytes | None:
    """What the application says there; None where that is no page."""
    answer = client.get(address, environ_overrides=_SOMEBODY)
    if answer.status_code == 404 and any(part in address for part in ("/roofline", "/badge/", "/history.svg")):
        return None  # a project need not have one
    if answer.status_code != 200:
        faults.append(f"{address}: {answer.status_code}")
        return None
    return answer.get_data()


def _list(client: FlaskClient, address: str) -> bytes:
    """Every part of a list of the API as one, as JSON or CSV."""
    answer = client.get(address, environ_overrides=_SOMEBODY)
    parts = [answer]
    while onward := _next(answer.headers.get("Link")):
        answer = client.get(onward, environ_overrides=_SOMEBODY)
        parts.append(answer)
    if answer.mimetype == "text/csv":
        return b"".join(part.get_data().split(b"\r\n", 1)[1] if n else part.get_data() for n, part in enumerate(parts))
    whole = parts[0].get_json()
    items = [item for part in parts for item in part.get_json()["items"]]
    return orjson.dumps({**whole, "items": items, "limit": max(len(items), 1), "next": None}) + b"\n"


def _next(link: str | None) -> str | None:
    return link.partition("<")[2].partition(">")[0] if link else None


def _leads_on(file: str) -> bytes:
    """The first page of a site of one project."""
    link = escape(quote(file))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>warpwatch</title>'
        f'<meta http-equiv="refresh" content="0; url={link}"></head>'
        f'<body><main><h1>warpwatch</h1><p><a href="{link}">The overview</a></p></main></body></html>\n'
    ).encode()
