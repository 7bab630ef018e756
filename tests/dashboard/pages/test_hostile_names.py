"""Whatever things are called, through a real import: every address opens, and a name is text and never markup."""

import json
import re
import subprocess
import tempfile
from collections import Counter, deque
from dataclasses import dataclass, fields
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit
from xml.etree import ElementTree

import pytest
from flask import Flask
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.asv_results import AsvResults
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.notes import add_annotation
from warpwatch.dashboard.web.app import create_app

MARK = "zq"  # every element, attribute and handler that a name brings begins with it, and nothing of ours does
_PIECES = (
    '"',
    "'",
    "<zqx zqa=1 onzq=1>",
    "</script><zqx>",
    "</title><zqx>",
    "</style>",
    "-->",
    "]]>",
    "<!--",
    "<svg/onload=zq()>",
    '"onzq="1',
    "' zqa='1",
    "{{7*7}}",
    "{% zq %}",
    "${zq}",
    "%s%(zq)s",
    "&lt;zqx&gt;",
    "&#60;zqx",
    "\\u003czqx\\u003e",
    "javascript:zq()",
    "//zq",
    "../",
    "%2e%2e%2f",
    "%00",
    "?zq=1&",
    "#zq",
    "~1",
    "~",
    "/",
    "\\",
    " ",
    "\t",
    "\u2028",
    "\u202e",
    "é",
    "日本",
    "🙂",
    "%",
    "_",
    "*",
    "(",
    "[",
    ",",
    ";",
    "=",
    "+",
    "zq",
    "0",
)
# Anything a result file may hold: no lone surrogates, which no encoding has, and no zero, which no database takes.
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
_NAMES = st.lists(st.sampled_from(_PIECES) | _TEXT, min_size=1, max_size=5).map("".join)
_ADDRESSES = 150  # of one example
_OF_A_KIND = 2  # of these, of one route with the same parameters
_COMMITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What everything is called; each gets a letter before it, so that none is empty."""

    project: str
    machine: str
    gpu: str
    suite: str
    operator: str
    workload: str
    implementation: str
    parameter: str
    environment: str
    subject: str
    author: str
    note: str
    reason: str


_WORST = "\"'><zqx zqa=1 onzq=1></script></title>{{7*7}}</style><!--"


@pytest.mark.outside  # fills a database for each example
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@example(names=Names(**{field.name: _WORST for field in fields(Names)}))
@example(names=Names(**{field.name: "../~1?#%2f/." for field in fields(Names)}))
@example(  # asv keeps the `repr` of a workload, which escapes some of this one; its kernel's badge was not found
    names=Names(
        project="\x9eB\U000dd10c¿\x8a",
        machine="\x06<\U00105c4a^º",
        gpu="û¶íê§",
        suite="Ñ¼{% zq %}(\U000ba16e<<À\n0",
        operator="]]>?G",
        workload="¢¨\x859M\U00057f77@",
        implementation="/2\x08|\U000771a9\U000ee564ÃJ",
        parameter='\U0003d480¿Ô8\\"onzq="1-->\\',
        environment="</style>{% zq %}",
        subject="[\u2028/)\U0004b923",
        author=",0",
        note="?zq=1&Åé",
        reason="%s%(zq)s",
    )
)
@given(names=st.builds(Names, **{field.name: _NAMES for field in fields(Names)}))
def test_no_name_breaks_a_page_or_becomes_part_of_it(names: Names) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'history.db'}"
        commits = _fill(Path(folder), database, names)
        app = create_app(Settings(database=database))
        client = app.test_client()
        begun = ["/", f"/search?q={MARK}", f"/search?q={quote(names.suite)}&live=1", "/api/projects"]
        found, opened, of_kind = deque(begun), set[str](), Counter[tuple[str, ...]]()
        while found and len(opened) < _ADDRESSES:
            address = found.popleft()
            kind = _kind(app, address)
            if address in opened or of_kind[kind] == _OF_A_KIND:
                continue
            opened.add(address)
            of_kind[kind] += 1
            answer = client.get(address)
            assert answer.status_code < 400, f"{answer.status_code} of {address}"
            if answer.status_code >= 300:
                found.append(urljoin(address, answer.headers["Location"]))
                continue
            found.extend(_links(answer.mimetype, answer.get_data(as_text=True), address))
        paths = [urlsplit(each).path.split("/") for each in opened]
        kinds = {path[2] for path in paths if len(path) > 2}
        assert {"series", "commits", "commit", "machines", "roofline", "regressions", "search"} <= kinds, kinds
        assert any(commits[-1] in each for each in opened)
        app.extensions["store"].close()


def _kind(app: Flask, address: str) -> tuple[str, ...]:
    """The route and the names of its parameters."""
    with app.test_request_context(address) as context:
        return str(context.request.endpoint), *sorted(context.request.args)


def _fill(folder: Path, database: str, names: Names) -> list[str]:
    """A history with a step, a note, a value without a number and a workload, imported; gives the commits."""
    commits = _repository(folder / "repository", names)
    asv = AsvResults(folder / "results")
    suite = f"s{names.suite}".replace("\n", " ")
    name = f"{suite}.track_latency"
    workloads, implementations = [repr(f"w{names.workload}")], [repr(f"i{names.implementation}"), "'eager'"]
    others = [repr(names.parameter)]
    parameters = [workloads, implementations, others]
    asv.benchmark(name, workload=workloads, implementation=implementations, **{f"p{names.parameter}": others})
    for number, commit in enumerate(commits):
        level = 1e-4 * (1 + 0.001 * (number % 3)) * (1.3 if number >= 5 else 1.0)
        values = [level if number < _COMMITS - 1 else None, 3e-4]
        row = asv.row(values, parameters, started_at=number * 3600_000 + 1, spread=0.001)
        path = asv.commit(number, {name: row}, machine=f"m{names.machine}", folder="box", commit=commit)
        # A file's own name cannot hold the environment's; what reads it goes by what is inside.
        path.write_text(json.dumps({**json.loads(path.read_text()), "env_name": f"e{names.environment}"}))
        run = f"run-{number}"
        common = {"run": run, "benchmark": suite, "workload": f"w{names.workload}"}
        dtype = f"d{names.operator}"
        peaks = {"name": f"g{names.gpu}", "source": "datasheet", "bandwidth_bps": 4.8e12, "flops": {dtype: 1e15}}
        asv.context(
            path,
            {
                "record": "run",
                "schema": 1,
                "run": run,
                "commit": commit,
                "environment": f"e{names.environment}",
                "started_at": f"2026-01-{1 + number:02}T00:00:00+00:00",
                "device": "cuda",
                "ceilings": peaks,
                "gpu": {"name": f"g{names.gpu}", "uuid": f"u{names.gpu}"},
                "cpu": {"model": names.gpu},
                "software": {},
            },
            {
                "record": "workload",
                **common,
                "operator": f"o{names.operator}",
                "parameters": {},
                "dtype": dtype,
                "flops": 10**9,
                "bytes": 10**6,
                "kernels": [f"i{names.implementation}"],
                "baselines": ["eager"],
                "controls": [],
            },
            {
                "record": "measurement",
                **common,
                "implementation": f"i{names.implementation}",
                "status": "ok" if values[0] else "failed",
                "reason": None if values[0] else f"r{names.reason}",
                "latency_s": values[0],
                "sample_count": 10 if values[0] else 0,
            },
        )
    store = Store(database)
    import_results(store, open_folder(asv.folder, project=f"p{names.project}", repository=folder / "repository"))
    analyse(store)
    add_annotation(
        store, f"p{names.project}", commits[2], author=f"a{names.author}", text=f"n{names.note}", now_ms=1767225600_000
    )
    store.close()
    return commits


def _repository(folder: Path, names: Names) -> list[str]:
    """Commits of a real repository, whose subject and author git takes as they are, but for what it never keeps."""
    author = re.sub(r"[<>\n\x00-\x1f]", "", f"a{names.author}") or "a"
    lines = []
    for number in range(_COMMITS):
        message = f"s{names.subject} {number}".encode()
        who = f"{author} <a@example.org> {1767225600 + number * 3600} +0000".encode()
        lines += [b"commit refs/heads/main", b"author " + who, b"committer " + who, b"data %d" % len(message), message]
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    given = b"\n".join(lines) + b"\n"
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=given, check=True)
    asked = ["git", "-C", str(folder), "log", "--reverse", "--format=%H", "main"]
    log = subprocess.run(asked, check=True, capture_output=True, text=True)
    return log.stdout.split()


class _Page(HTMLParser):
    """A page as a browser reads it; fails where an element, an attribute or a script is none of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert MARK not in tag, f"<{tag}> came from a name"
        for name, value in attrs:
            assert MARK not in name, f"{name}= came from a name"
            assert not name.startswith("on"), f"a handler: {name}={value}"
            if name in {"href", "src", "action", "data-figure-url", "data-row"} and value:
                assert not value.lower().lstrip().startswith(("javascript:", "data:", "//", "http")), value
            is_asked = name == "href" or (name == "action" and ("method", "get") in attrs)
            if is_asked and value and not value.startswith("#"):
                self.addresses.append(value)
        if tag == "script":
            said = dict(attrs)
            assert "src" in said or said.get("type") == "application/json", "an inline script"
            self._script = "" if "src" not in said else None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self._script += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._script is not None:
            json.loads(self._script)
            self._script = None


def _links(kind: str, text: str, address: str) -> list[str]:
    """What an answer leads to, once it has been found to be well-formed."""
    if kind in {"application/json", "application/problem+json"}:
        json.loads(text)
    elif kind == "image/svg+xml":
        for element in ElementTree.fromstring(text).iter():
            assert MARK not in element.tag
            assert not any(MARK in name or name.startswith("on") for name in element.attrib)
    elif kind == "text/html":
        page = _Page()
        page.feed(text)
        page.close()
        assert "{{7*7}}" in text or "49" not in re.findall(r"(?<=title>)[^<]*", text)
        here = [urljoin(address, each) for each in page.addresses]
        ours = [each for each in here if not urlsplit(each).netloc and not each.startswith("/static/")]
        # Pages first that are not yet among many of their kind: a list leads to hundreds of series.
        return sorted({each.partition("#")[0] for each in ours}, key=lambda each: each.count("series/"))
    return []


@pytest.mark.parametrize("path", ["/{}/", "/{}/series/x", "/{}/commit/x", "/nosuch/{}", "/search?q={}"])
@pytest.mark.parametrize("name", ['"><zqx zqa=1>', "</title><zqx>", "{{7*7}}", "%00", "\u2028", "é"])
def test_unknown_names_in_an_address_are_text_too(history_store: Settings, path: str, name: str) -> None:
    app = create_app(history_store)
    answer = app.test_client().get(path.format(quote(name, safe="")))
    assert answer.status_code in {200, 404}
    _links(answer.mimetype, answer.get_data(as_text=True), "/")
    app.extensions["store"].close()
