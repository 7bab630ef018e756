"""Answers are what the store holds now, and this reader's own, however the store, the clock or the reader changes."""

import gzip
import html
import ipaddress
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import brotli
import pytest
from flask.testing import FlaskClient

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import a_client, local_client
from tests.stored import new_regressions
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.alert import AlertKind, AlertState, HealthFinding, TriageFilter
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.settings import AccessSettings, ProxyLogin, Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alert_opening import open_health_alert, open_regression_alert
from warpwatch.dashboard.store.notes import Annotation, add_annotation, annotations
from warpwatch.dashboard.store.policy import record_acceptances
from warpwatch.dashboard.store.rejected_files import record_rejected_files
from warpwatch.dashboard.store.retention import drop_project
from warpwatch.dashboard.store.tokens import Scope, create_token, revoke_token
from warpwatch.dashboard.store.triage import Decision, triage
from warpwatch.dashboard.web import clock
from warpwatch.dashboard.web.app import create_app

LIST = "/kernels/regressions"
TOKEN = re.compile(r'(name="csrf_token" value=")([^"]+)')
AT_MS = 1_790_000_000_000


@pytest.fixture
def store(own: Settings) -> Iterator[Store]:
    opened = Store(own.database)
    yield opened
    opened.close()


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Stops the pages' clock; gives what moves it on."""
    times = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: times[-1])
    return lambda passed: times.append(times[-1] + passed)


@pytest.fixture
def client(own: Settings) -> Iterator[FlaskClient]:
    with a_client(own) as opened:
        yield opened


@pytest.fixture
def everywhere(store: Store, addresses: dict[str, str]) -> tuple[str, ...]:
    """An address of each view that reads the store, and of its filters."""
    slowed, profiled, card = addresses["slowed"], addresses["profiled"], addresses["card"]
    newest, before = (commit.hash for commit in queries.commits(store, "kernels", limit=2))
    two = f"base={before}&head={newest}"
    row = f"{two}&by=commit&series={slowed}"
    series = f"/kernels/series/{slowed}"
    api = "/api/projects/kernels"
    return (
        "/",
        "/search?q=rope",
        "/kernels/search?q=rope",
        "/kernels/search?q=a&live=1",
        "/kernels/",
        "/kernels/?q=decode",
        "/young/",
        "/kernels/series",
        "/kernels/series/?q=rope",
        series,
        f"/kernels/series/{profiled}?y=ratio",
        f"{series}/point",
        f"{series}/figure.json",
        "/kernels/roofline",
        LIST,
        f"{LIST}?state=all",
        f"{LIST}?period=7",
        f"{LIST}?kind=drift",
        f"{LIST}/{card}",
        f"/kernels/compare?{two}",
        "/kernels/compare",
        f"/kernels/compare/row?{row}",
        "/kernels/commits",
        f"/kernels/commit/{newest}",
        f"/kernels/commit/{addresses['slow_commit']}",
        "/kernels/machines",
        "/kernels/machines/runner-t4",
        "/kernels/kernel/rope",
        "/kernels/badge/verdict.svg",
        f"/kernels/badge/latency/{slowed}.svg",
        "/api/projects",
        api,
        f"{api}/overview",
        f"{api}/series",
        f"{api}/series?format=csv",
        f"{api}/series/{slowed}",
        f"{api}/series/{slowed}/history",
        f"{api}/series/{slowed}/compiled-code",
        f"{api}/commits",
        f"{api}/commits/{newest}",
        f"{api}/commits/{newest}/values",
        f"{api}/comparison?{two}",
        f"{api}/regressions",
        f"{api}/alerts",
        f"{api}/limits",
        f"{api}/roofline",
        f"{api}/machines",
        f"{api}/canaries",
        f"{api}/measurement",
        "/api/",
        "/api/openapi.json",
    )


def content(client: FlaskClient, address: str) -> tuple[str, str, str]:
    """An answer without what is each reader's own."""
    answer = client.get(address)
    return answer.status, TOKEN.sub(r"\1", answer.text), str(answer.headers.get("Location"))


def _import(store: Store, asv: AsvResults) -> None:
    asv.benchmark("suite.New.time_it")
    for number in range(3):
        asv.commit(number, {"suite.New.time_it": asv.row([1e-3], started_at=number + 1)})
    for project in ("kernels", "another"):
        import_results(store, open_folder(asv.folder, project=project))


def _analyse(store: Store, _asv: AsvResults) -> None:
    analyse(store)


def _drop(store: Store, _asv: AsvResults) -> None:
    drop_project(store, "young")


def _note(store: Store, _asv: AsvResults) -> None:
    commit = next(iter(queries.commits(store, "kernels", limit=1)))
    add_annotation(store, "kernels", commit.hash, author="ann", text="a new driver", now_ms=AT_MS)


def _triage(store: Store, _asv: AsvResults) -> None:
    (card, *_) = queries.triage_items(store, "kernels", TriageFilter()).items
    decision = Decision(state=AlertState.ACKNOWLEDGED, note="looking")
    triage(store, "kernels", [card.seen], decision, author="ann", now_ms=AT_MS)


def _alert(store: Store, _asv: AsvResults) -> None:
    (group, *_) = new_regressions(store, "kernels")
    assert open_regression_alert(store, group, messages={}, now_ms=AT_MS)


def _health(store: Store, _asv: AsvResults) -> None:
    finding = HealthFinding(
        kind=AlertKind.MISSING_DATA,
        subject="runner-t4",
        machine="runner-t4",
        kernel=None,
        summary="no data",
        members=(),
        lines=("no data for ages",),
    )
    assert open_health_alert(store, "kernels", finding, thread="t", messages={}, now_ms=AT_MS)


def _set_aside(store: Store, _asv: AsvResults) -> None:
    record_rejected_files(store, "kernels", "/results", ["x.json: no JSON"], now_ms=AT_MS)


def _accept(store: Store, _asv: AsvResults) -> None:
    said = Acceptance(pattern="rope*", reason="on purpose", by="ann", at=datetime.now(UTC), source="commit 1")
    head, base = (commit.hash for commit in queries.commits(store, "kernels", limit=2))
    record_acceptances(store, "kernels", base, head, [said], now_ms=AT_MS)


WRITES = (_note, _alert, _triage, _health, _set_aside, _import, _analyse, _drop)


def test_a_write_by_another_process_is_in_every_next_answer(
    own: Settings, client: FlaskClient, store: Store, everywhere: Sequence[str], asv: AsvResults, stopped_clock: object
) -> None:
    before = {address: content(client, address) for address in everywhere}
    for write in WRITES:
        write(store, asv)
        now = {address: content(client, address) for address in everywhere}
        with a_client(own) as other:
            assert now == {address: content(other, address) for address in everywhere}, write.__name__
        assert now != before, write.__name__  # so that it could have been wrong
        before = now


def test_a_comparison_with_a_branch_follows_the_branch(
    client: FlaskClient, store: Store, stopped_clock: object
) -> None:
    found = queries.project(store, "kernels")
    assert found is not None
    assert found.repository is not None
    newest, before, first = (commit.hash for commit in queries.commits(store, "kernels", limit=3))
    for head in (newest, before):
        subprocess.run(["git", "-C", found.repository, "branch", "-f", "tried", head], check=True)
        for _ in range(2):
            assert f"head={head}" in client.get(f"/kernels/compare?base={first}&head=tried").headers["Location"]
    subprocess.run(["git", "-C", found.repository, "branch", "-D", "tried"], check=True)
    assert client.get(f"/kernels/compare?base={first}&head=tried").status_code == 404


def test_a_write_while_an_answer_is_made_is_in_the_next(
    own: Settings, store: Store, asv: AsvResults, monkeypatch: pytest.MonkeyPatch, stopped_clock: object
) -> None:
    made: list[int] = []

    def slowly(*asked: Any, **arguments: Any) -> tuple[Annotation, ...]:
        found = annotations(*asked, **arguments)
        if not made:
            _note(store, asv)
        made.append(1)
        return found

    monkeypatch.setattr("warpwatch.dashboard.web.pages.commits.annotations", slowly)
    commit = next(iter(queries.commits(store, "kernels", limit=1)))
    with a_client(own) as client:
        assert "a new driver" not in client.get(f"/kernels/commit/{commit.hash}").text
        for _ in range(3):
            assert "a new driver" in client.get(f"/kernels/commit/{commit.hash}").text


def test_relative_times_on_a_page_move_on_with_the_clock(
    own: Settings, client: FlaskClient, everywhere: Sequence[str], stopped_clock: Callable[[timedelta], None]
) -> None:
    said = set()
    for passed in (timedelta(), timedelta(hours=2), timedelta(days=8)):
        stopped_clock(passed)
        said |= set(re.findall(r"Newest data: <time[^>]*>([^<]+)", client.get("/kernels/").text))
        with a_client(own) as other:
            for address in everywhere:
                assert content(client, address) == content(other, address)
    assert len(said) == 3


def test_the_pages_clock_goes_by_minutes() -> None:
    assert clock.now() <= datetime.now(UTC) < clock.now() + timedelta(minutes=2)
    assert (clock.now().second, clock.now().microsecond) == (0, 0)


@pytest.fixture
def behind_a_proxy(own: Settings) -> Settings:
    """Where a proxy names people, and everybody reads."""
    return replace(
        own,
        access=AccessSettings(
            login=ProxyLogin(),
            proxies=(ipaddress.ip_network("127.0.0.1"),),
            admins=("ada",),
            readers=("bob", "*@example.org"),
            reading_requires_login=True,
        ),
    )


def test_each_reader_gets_a_page_of_his_own(
    behind_a_proxy: Settings, everywhere: Sequence[str], stopped_clock: object
) -> None:
    with a_client(behind_a_proxy) as client:
        for name, may_triage in (("ada", True), ("bob", False), ("cy@example.org", False), ("ada", True)):
            page = client.get(LIST, headers={"X-Forwarded-User": name})
            assert ("csrf_token" in page.text) is may_triage
            assert {other for other in ("ada", "bob", "cy@example.org") if f"{other}:" in page.text} == {name}
            assert page.headers["Cache-Control"] == "private, no-store"
        for prefix in ("/perf", ""):  # which the settings do not name, so that no client can choose one
            page = client.get(LIST, headers={"X-Forwarded-User": "bob", "X-Forwarded-Prefix": prefix})
            assert 'href="/kernels/machines"' in page.text
        for address in everywhere:
            assert client.get(address, headers={"X-Forwarded-User": "bob"}).status_code in {200, 302}
            assert client.get(address).status_code == 401
            assert client.get(address, headers={"X-Forwarded-User": "eve"}).status_code == 403
            assert client.get(address, headers={"X-Forwarded-User": "bob", "Host": "evil.example"}).status_code == 400


def test_a_token_reads_its_project_until_it_is_revoked(
    behind_a_proxy: Settings, store: Store, stopped_clock: object
) -> None:
    made = {
        project: create_token(store, project, name="ci", scope=Scope.READ, now_ms=1) for project in ("kernels", "young")
    }
    with a_client(behind_a_proxy) as client:
        of = {project: {"Authorization": f"Bearer {secret}"} for project, secret in made.items()}
        for _ in range(2):
            assert "young" not in client.get("/kernels/", headers=of["kernels"]).text  # it does not learn of others
            assert client.get("/kernels/", headers=of["young"]).status_code == 403
            assert client.get("/kernels/", headers={"X-Forwarded-User": "bob"}).text.count("young") > 0
        assert revoke_token(store, 1, now_ms=2)
        assert client.get("/kernels/", headers=of["kernels"]).status_code == 401


def test_each_client_gets_the_format_that_it_requests_and_its_own_projects(
    client: FlaskClient, stopped_clock: object
) -> None:
    for _ in range(2):
        as_json, as_csv = (
            client.get("/api/projects/kernels/series", headers={"Accept": kind}) for kind in ("*/*", "text/csv")
        )
        assert (as_json.mimetype, as_csv.mimetype) == ("application/json", "text/csv")
        # A client with a token, even an invalid one, does not learn of other projects.
        assert "young" not in client.get("/kernels/", headers={"Authorization": "Basic YTpi"}).text
        assert "young" in client.get("/kernels/").text


def test_the_form_of_a_page_works_for_each_browser_and_for_no_other(own: Settings, stopped_clock: object) -> None:
    app = create_app(own)
    browsers = [local_client(app) for _ in range(2)]
    tokens: list[str] = []
    for browser in browsers:
        found = {token for _, token in TOKEN.findall(browser.get(LIST).text)}
        assert len(found) == 1
        again = {token for _, token in TOKEN.findall(browser.get(LIST).text)}
        assert len(again) == 1
        assert again != found  # masked anew
        tokens += found
    assert tokens[0] != tokens[1]
    card = html.unescape(re.findall(r'name="item" value="([^"]+)"', browsers[0].get(LIST).text)[0])
    said = {"item": card, "state": "acknowledged", "note": "looking"}
    for wrong in (tokens[1], "x" * 32, ""):
        assert browsers[0].post(LIST, data={**said, "csrf_token": wrong}).status_code == 403
    assert browsers[0].post(LIST, data={**said, "csrf_token": tokens[0]}).status_code == 303
    # The confirmation is shown once, to the user who made the change.
    assert "set to “acknowledged”" not in browsers[1].get(LIST).text
    assert "set to “acknowledged”" in browsers[0].get(LIST).text
    assert "set to “acknowledged”" not in browsers[0].get(LIST).text
    assert "looking" in browsers[1].get(f"{LIST}?state=all").text
    app.extensions["store"].close()


# Decoded, because gzip's header contains the time (RFC 1952, MTIME).
_DECODERS = {"gzip": gzip.decompress, "br": brotli.decompress, "identity": bytes}


@pytest.mark.parametrize("coding", _DECODERS)
def test_a_cached_answer_is_not_modified_until_the_next_write(
    coding: str, client: FlaskClient, store: Store, asv: AsvResults, stopped_clock: object
) -> None:
    for address in ("/kernels/", "/kernels/commits", "/api/projects/kernels/commits"):
        takes = {"Accept-Encoding": coding}
        first, second = client.get(address, headers=takes), client.get(address, headers=takes)
        assert _DECODERS[coding](first.get_data()) == _DECODERS[coding](second.get_data())
        assert first.headers["ETag"] == second.headers["ETag"]
        assert first.headers.get("Content-Encoding", "identity") == coding
        assert {"private", "no-cache"} <= set(first.headers["Cache-Control"].split(", "))
        again = client.get(address, headers={**takes, "If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.get_data()) == (304, b"")
        assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]
    _note(store, asv)
    assert client.get("/kernels/commits", headers={**takes, "If-None-Match": first.headers["ETag"]}).status_code == 200
