"""The exported site, served as files under a sub-path, in Chromium: it is complete, and needs no other server."""

import functools
import http.server
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin
from xml.etree import ElementTree

import pytest
import requests
from click.testing import CliRunner

from tests.dashboard.pages.browsing import HOSTILE, Tab
from tests.dashboard.pages.conftest import BROWSERS
from warpwatch.ci.cli import main
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.figures.style import COLOURS, Theme
from warpwatch.dashboard.web.site.site_files import PageRewriter


@pytest.fixture(scope="session")
def site(history_store: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of two of the store's projects, with pictures, which a browser draws."""
    if not any(map(shutil.which, BROWSERS)):
        pytest.skip(f"none of {', '.join(BROWSERS)} is on PATH")
    folder = tmp_path_factory.mktemp("www") / "warpwatch"
    done = CliRunner().invoke(
        main,
        [
            "export",
            "--site",
            str(folder),
            "--project",
            "kernels",
            "--project",
            HOSTILE,
            "--commits",
            "4",
            "--images",
            "--database",
            history_store.database,
        ],
    )
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return folder


@pytest.fixture(scope="session")
def site_url(site: Path) -> Iterator[str]:
    """Where it is served; nothing but files."""
    handler = functools.partial(_Quiet, directory=str(site.parent))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/warpwatch/"
    server.shutdown()
    server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing on the tests' own output."""


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.forms = 0
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.forms += tag == "form" and attributes.get("method") != "dialog"
        self.names |= {attributes["id"]} if attributes.get("id") else set()  # type: ignore[arg-type]
        self.found += [value for name, value in attrs if name in ("href", "src", "data-plotly") and value]


def test_every_link_of_every_page_leads_to_a_file_of_the_site(site: Path, site_url: str) -> None:
    waiting, pages, files = [site_url], {}, set()
    while waiting:
        url = waiting.pop()
        if url in files:
            continue
        files.add(url)
        answer = requests.get(url, timeout=60)
        assert answer.status_code == 200, url
        if not answer.headers["Content-Type"].startswith("text/html"):
            continue
        links = _Links()
        links.feed(answer.text)
        assert links.forms == 0, f"{url} needs a server"
        pages[url] = links
        for link in links.found:
            whole, _ = urldefrag(urljoin(url, link))
            if link.startswith(("http:", "https:", "data:")):
                continue
            assert whole.startswith(site_url), f"{url} leaves the site: {link}"
            waiting.append(whole)
    for url, links in pages.items():
        for link in links.found:
            whole, mark = urldefrag(urljoin(url, link))
            assert not mark or whole not in pages or mark in pages[whole].names, f"{link} of {url}"
    reached = {unquote(url.removeprefix(site_url)) for url in files}
    written = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"index.html"}
    assert written <= reached | {"api/index.html"}
    commits = {path for path in reached if "/commit/" in path}
    assert len(commits) == 8  # the newest four of each project


def test_its_pages_draw_in_a_browser_and_complain_of_nothing(
    site: Path, site_url: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    hostile = next(path for path in site.iterdir() if path.is_dir() and path.name.startswith("img-src"))
    for path in (
        "index.html",
        "kernels/index.html",
        f"kernels/series/{addresses['slowed']}.html",
        "kernels/roofline.html",
        "kernels/regressions.html",
        "kernels/machines.html",
        "api/index.html",
        f"{hostile.name}/index.html",
        f"{hostile.name}/series/{addresses['hostile']}.html",
    ):
        tab = new_tab()
        assert tab.open(site_url + path) == 200
        assert tab.page.locator("h1").count() == 1, path
        assert tab.page.title() != "owned"
        assert tab.complaints == [], path
    assert tab.page.locator("html").get_attribute("data-bs-theme") == "light"


def test_a_points_panel_and_a_figures_refinement_send_no_request(
    site_url: str, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(f"{site_url}kernels/series/{addresses['slowed']}.html")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    box = tab.page.locator(".ww-plot .scatterlayer .point").last.bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.page.wait_for_timeout(300)
    assert (asked, tab.complaints) == ([], [])


def test_no_page_names_a_project_that_was_not_chosen(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"\byoung\b", page.read_text()), page


def test_the_first_page_of_a_site_of_one_project_has_a_link_to_it(history_store: Settings, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        [
            "export",
            "--site",
            str(tmp_path),
            "--project",
            "young",
            "--commits",
            "1",
            "--database",
            history_store.database,
        ],
    )
    assert done.exit_code == 0, done.output
    (link,) = re.findall(r'<a href="([^"]+)">The overview</a>', (tmp_path / "index.html").read_text())
    assert (tmp_path / link).is_file()
    assert 'class="ww-projects"' not in (tmp_path / link).read_text()


def test_pictures_of_the_histories_are_drawn_in_both_themes(
    site: Path, addresses: dict[str, str], new_tab: Callable[..., Tab]
) -> None:
    files = {
        Theme.LIGHT: site / "kernels/series" / addresses["slowed"] / "history.svg",
        Theme.DARK: site / "kernels/series" / addresses["slowed"] / "history-dark.svg",
    }
    for theme, file in files.items():
        root = ElementTree.parse(file).getroot()
        texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert any("runner-t4" in (text or "") for text in texts)
        red, green, blue = (int(COLOURS[theme]["blue"][place : place + 2], 16) for place in (1, 3, 5))
        assert f"rgb({red}, {green}, {blue})" in file.read_text()
    assert (site / "kernels/roofline-nvidia-h200.svg").read_text().startswith("<svg")
    hostile = next(path for path in site.iterdir() if path.name.startswith("img-src"))
    tab = new_tab()
    tab.page.goto((hostile / "series" / addresses["hostile"] / "history.svg").as_uri())
    assert tab.page.evaluate("document.title") != "owned"
    assert tab.page.evaluate("document.querySelectorAll('script, img').length") == 0


def test_pictures_without_a_browser_are_an_error_that_says_what_to_install(
    history_store: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-browser"))
    arguments = ["export", "--site", str(tmp_path / "site"), "--project", "young", "--images"]
    done = CliRunner().invoke(main, [*arguments, "--database", history_store.database])
    assert done.exit_code == 1
    assert "pip install 'warpwatch[pictures]'" in done.stderr


def test_the_data_is_exported_with_the_pages(site: Path, addresses: dict[str, str], address: str) -> None:
    for part in ("overview", "series", "commits", "regressions", "machines", "canaries"):
        document = json.loads((site / "api/projects/kernels" / f"{part}.json").read_text())
        asked = requests.get(f"{address}/api/projects/kernels/{part}?limit=1000", timeout=60).json()
        assert document["items"] == asked["items"]
        assert document["next"] is None
        rows = (site / "api/projects/kernels" / f"{part}.csv").read_text().count("\n")
        assert rows >= len(document["items"]) + 1


def test_a_link_without_a_file_is_words_and_a_button_without_one_is_gone() -> None:
    page = PageRewriter(lambda link: "../there.html#x" if link == "/there?a=1&b" else None)
    page.feed(
        '<!doctype html><a class="ww" href="/there?a=1&amp;b">go</a> <a href="/away" title="&quot;">no &lt;</a>'
        '<a class="btn" href="/away"><b>gone</b></a><form action="/x"><input name="q"><p>gone</p></form>'
        '<div data-figure-url="/away">kept</div><script type="application/json">{"a": "<a href=\\"/away\\">"}</script>'
    )
    page.close()
    assert page.text == (
        '<!doctype html><a class="ww" href="../there.html#x">go</a> <span title="&quot;">no &lt;</span>'
        '<div>kept</div><script type="application/json">{"a": "<a href=\\"/away\\">"}</script>'
    )
