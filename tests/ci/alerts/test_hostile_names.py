"""Names that an upload made up stand in alerts as words: no link, no mention, no heading, no tag, in any format."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import cmarkgfm
import pytest
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.slack import NotifySlack

from tests.asv_results import AsvResults
from tests.ci.alerts.test_lifecycle import SLOW, STEADY
from tests.ci.reports.hostile import EVIL
from tests.http_inbox import Inbox
from tests.stored import copy_database, new_regressions, regression_alerts
from warpwatch.ci.alerts.alert_content import (
    Action,
    Content,
    DeliveryError,
    Message,
    compose,
    health_content,
    regression_content,
    resolved_content,
)
from warpwatch.ci.alerts.channels.chat import notify
from warpwatch.ci.alerts.digest import Period, compose_digest, digest
from warpwatch.ci.alerts.grouping import group
from warpwatch.dashboard.model.alert import AlertKind, HealthFinding
from warpwatch.dashboard.model.changepoint import Regression
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.alert_opening import open_health_alert, open_regression_alert

DASHBOARD = "https://perf.example.org"
BAD = (
    *EVIL,
    "@everyone",
    "<!here>",
    "<@U123>",
    "<!channel|x>",
    "@all [click](https://evil.example) \n\n# PWN",
    "\n\n# PWN\n",
    "a`<!here> https://evil.example",
    "``` \n\n@here",
    "\u2028# PWN",
    "//evil.example/x",
)


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a history that became slower."""
    folder = tmp_path_factory.mktemp("slowed")
    asv = AsvResults(folder / "results")
    name = "suite.Bench.track_latency"
    asv.benchmark(name)
    for number, value in enumerate([*STEADY, *SLOW]):
        asv.commit(number, {name: asv.row([value], started_at=number + 1, spread=0.002)})
    with closing(Store(str(folder / "history.db"))) as store:
        asv.load(store)
    return folder / "history.db"


@pytest.fixture(scope="module")
def regression(slowed: Path) -> Regression:
    with closing(Store(str(slowed))) as store:
        ((one,),) = (found.regressions for found in new_regressions(store, "demo"))
    return one


@pytest.fixture
def store(slowed: Path, tmp_path: Path) -> Iterator[Store]:
    """That history, to open alerts in."""
    with closing(Store(copy_database(slowed, tmp_path / "history.db"))) as opened:
        yield opened


def _named(regression: Regression, evil: str) -> Regression:
    """The same, with that in place of every word that an upload chooses."""

    def commit(of: Commit) -> Commit:
        return replace(of, hash=evil, subject=evil, author=evil)

    series = replace(
        regression.series,
        benchmark=evil,
        parameters=(("p", evil),),
        machine=evil,
        environment=evil,
        metric=replace(regression.series.metric, unit=evil),
    )
    change = regression.change
    moved = replace(
        change,
        commit=commit(change.commit),
        previous_commit=commit(change.previous_commit),
        range_start=commit(change.range_start),
        range_end=commit(change.range_end),
        posterior=tuple((commit(one), held) for one, held in change.posterior),
        q_value=0.2,
    )
    return replace(regression, series=series, change=moved)


def _messages(store: Store, regression: Regression, evil: str) -> Iterator[Message]:
    one = _named(regression, evil)
    (found,) = group("demo", [one])
    news = [f"1 more series moved: {evil}."]
    content = regression_content(found, action=Action.UPDATED, news=news, code=[evil], dashboard_url=DASHBOARD)
    yield compose(content, thread="t", number=2, action=Action.UPDATED)
    (alert,) = regression_alerts(store, "demo")
    series = tuple(replace(its, series=one.series) for its in alert.series)
    alert = replace(alert, machine=evil, commit=one.change.commit, previous_commit=one.change.commit, series=series)
    content = resolved_content(alert, why="recovered", owners=(), dashboard_url=DASHBOARD)
    yield compose(content, thread="t", number=3, action=Action.RESOLVED)
    finding = HealthFinding(
        kind=AlertKind.NO_NUMBER,
        subject=evil,
        machine=evil,
        kernel=evil,
        summary=f"{evil}: {evil}",
        members=(),
        lines=(evil, f"{evil} at {evil[:8]}: {evil}"),
    )
    for action in (Action.OPENED, Action.RESOLVED):
        content = health_content("demo", finding, action=action, dashboard_url=DASHBOARD)
        yield compose(content, thread="t", number=1, action=action)
    period = digest(store, "demo", Period.DAILY, datetime.now(UTC))
    health = tuple(replace(each, finding=finding) for each in period.health)
    yield compose_digest(replace(period, new=(alert,), worst=((alert, series[0]),), health=health), DASHBOARD)


def compose_first(content: Content) -> Message:
    return compose(content, thread="t", number=1, action=Action.OPENED)


class _Page(HTMLParser):
    """Its tags, its links, and the text outside of code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self._depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self._depth += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "code"

    def handle_data(self, data: str) -> None:
        self.text += "" if self._depth else data


def _without_our_links(text: str) -> str:
    return re.sub(rf"{DASHBOARD}/demo/[^\s<]*", "", text)


def _assert_inert(text: str) -> None:
    """Of text in which nothing is code."""
    assert not re.search(r"@\w|<[!@/\w]|https?://evil|www\.|\]\(|(?m:^\s*#+\s)", text), text


@pytest.mark.parametrize("evil", BAD)
def test_a_strangers_words_do_nothing(evil: str, regression: Regression, store: Store) -> None:
    (found,) = group("demo", [regression])
    open_regression_alert(store, found, messages={}, now_ms=1)
    health = HealthFinding(
        kind=AlertKind.NO_NUMBER, subject="s", machine="box", kernel="k", summary="s", members=(), lines=()
    )
    open_health_alert(store, "demo", health, thread="h", messages={}, now_ms=1)
    messages = list(_messages(store, regression, evil))
    assert len(messages) == 5
    for message in messages:
        _assert_inert(message.title)
        assert "\n" not in message.title
        page = _Page(cmarkgfm.github_flavored_markdown_to_html(message.text))
        assert page.tags <= {"p", "ul", "li", "code", "a", "strong"}, message.text
        assert all(link.startswith(f"{DASHBOARD}/demo/") for link in page.links), message.text
        _assert_inert(_without_our_links(page.text))
        if message.html is not None:
            html = _Page(message.html)
            assert html.tags <= {"html", "head", "meta", "title", "body", "h1", "h2", "p", "ul", "li", "a"}
            assert all(link.startswith(f"{DASHBOARD}/demo/") for link in html.links)
            assert not re.search(r"https?://|www\.|//evil", html.text)


def test_the_payload_is_as_it_was_recorded(regression: Regression) -> None:
    evil = "<!here> @all"
    (found,) = group("demo", [_named(regression, evil)])
    payload = compose_first(regression_content(found, dashboard_url=DASHBOARD)).payload
    assert payload["first_bad_commit"]["hash"] == evil
    assert f"on {evil} at" in payload["title"]
    assert unquote(payload["url"]).endswith(f"/commit/{evil}")
    assert " " not in payload["url"]


@pytest.mark.parametrize("service", ["mmost", "discord", "slack"])
@pytest.mark.parametrize("evil", BAD)
def test_chat_services_are_sent_words_alone(
    service: str, evil: str, regression: Regression, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their own rules: Slack acts on <…>, Discord and Mattermost on what is outside of code."""
    monkeypatch.setattr(NotifyDiscord, "notify_url", inbox.url)
    monkeypatch.setattr(NotifySlack, "webhook_url", inbox.url)
    inbox.answer = 200
    (found,) = group("demo", [_named(regression, evil)])
    message = compose_first(regression_content(found, code=[evil], dashboard_url=DASHBOARD))
    address = {
        "mmost": inbox.url.replace("http", "mmost") + "/3ccdd113474722377935511fc85d3dd4",
        "discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
    }[service]
    with suppress(DeliveryError) if service == "slack" else nullcontext():  # Slack answers "ok", the inbox nothing
        notify(message, address)
    (sent,) = inbox.received
    if service == "slack":
        words = json.dumps(sent, ensure_ascii=False)
        assert not re.search(r"<[!@#]", words), words
        assert not re.search(r"(?<!`)https?://evil", words), words
        return
    text = sent["content"] if service == "discord" else sent["text"]
    outside = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", _without_our_links(text))
    assert not re.search(r"@(everyone|here|all|evil)|<[!@]|https?://|\]\(", outside), outside
