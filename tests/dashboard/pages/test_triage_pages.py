"""People triage on the regressions page: forms without a script, keys, many at once, two at the same item, notes."""

import html
import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Page

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import HOSTILE, Tab, a_client, serving
from warpwatch.dashboard.model.alert import EventKind, TriageFilter, TriageItem
from warpwatch.dashboard.settings import AccessSettings, ProxyLogin, Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.notes import add_annotation, annotations
from warpwatch.dashboard.web.app import create_app

LIST = "/kernels/regressions"


@pytest.fixture
def store(own: Settings) -> Iterator[Store]:
    opened = Store(own.database)
    yield opened
    opened.close()


@pytest.fixture
def client(own: Settings) -> Iterator[FlaskClient]:
    with a_client(own) as opened:
        yield opened


@pytest.fixture
def url(own: Settings) -> Iterator[str]:
    with serving(own) as address:
        yield address


def the_items(store: Store, project: str = "kernels") -> tuple[TriageItem, ...]:
    return queries.triage_items(store, project, TriageFilter()).items


def field_of(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, name
    return html.unescape(found[1])


def fields(client: FlaskClient, item: TriageItem, **said: str) -> dict[str, str]:
    """What the form of that item sends."""
    page = client.get(LIST).text
    return {"csrf_token": field_of(page, "csrf_token"), "item": f"{item.seen.key} {item.seen.version}", **said}


def test_a_form_without_a_script_sets_a_state_with_its_note_and_shows_the_list_again(
    client: FlaskClient, store: Store
) -> None:
    item = the_items(store)[1]
    said = fields(client, item, state="acknowledged", note="looking", back=f"{LIST}?machine=runner-t4")
    answer = client.post(LIST, data=said)
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"{LIST}?machine=runner-t4#alert-1"
    page = client.get(answer.headers["Location"]).text
    assert "1 alert set to “acknowledged”." in page
    assert "looking" in page
    assert the_items(store)[1].alert.events[-1].note == "looking"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("unit", "levels"),
    [
        ("unit", ["26.0 no unit", "27.5 no unit"]),
        ("seconds", ["26.0 s", "27.5 s"]),
    ],
)
def test_the_levels_of_a_card_have_units_or_say_that_none_is_stated(
    unit: str, levels: list[str], asv: AsvResults, tmp_path: Path
) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'own.db'}")
    asv.benchmark("suite.Bench.track_it", unit=unit)
    for number in range(20):
        row = asv.row([26.0 if number < 10 else 27.5], started_at=number + 1, spread=0.002)
        asv.commit(number, {"suite.Bench.track_it": row})
    store = Store(settings.database)
    asv.load(store)
    store.close()
    with a_client(settings) as client:
        page = client.get("/demo/regressions?state=all").text
    cells = re.findall(r'data-label="(?:From|To)">(.*?)</td>', page)
    assert [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells] == levels


def test_a_card_explains_itself(client: FlaskClient, addresses: dict[str, str]) -> None:
    page = html.unescape(re.sub(r"<[^>]+>|\s+", " ", client.get(f"{LIST}/{addresses['card']}").text))
    page = re.sub(r"\s+", " ", page)
    assert re.search(r"\+[34]\.\d % = machine (?:0\.0|[+−]0\.[1-9]) % \(.* to .*\) and kernel \+[34]\.\d % ", page)
    assert "by the canaries" in page
    assert "registers 96 → to 128 , occupancy 50.0 % → to 37.5 %" in page
    assert re.search(r"Culprit [0-9a-f]{8} ci: the runner checks its clocks before a run · \d\d % likely", page)
    assert re.search(r"git log --oneline [0-9a-f]{40}\.\.[0-9a-f]{40}", page)
    assert re.search(r"warpwatch gate [0-9a-f]{40} [0-9a-f]{40} --bench", page)


def test_two_at_one_card_the_later_reads_what_the_other_did(client: FlaskClient, store: Store) -> None:
    item = the_items(store)[1]
    said = fields(client, item, state="acknowledged")
    assert client.post(LIST, data=said).status_code == 303
    late = client.post(LIST, data={**said, "state": "expected"})
    assert late.status_code == 409
    assert "item has changed since you saw it" in late.text
    seen = fields(client, the_items(store)[1], state="expected")
    assert client.post(LIST, data=seen).status_code == 303
    late = client.post(LIST, data={**seen, "state": "resolved"})
    assert late.status_code == 409
    assert "set it to “expected” since you saw it" in late.text


def test_a_reader_sees_no_forms_and_changes_nothing(own: Settings, store: Store) -> None:
    app = create_app(replace(own, access=AccessSettings()))
    client = app.test_client()
    page = client.get(LIST).text
    assert "<form" in page
    assert 'method="post"' not in page
    answer = client.post(LIST, data={"item": "x 1", "state": "expected"})
    assert answer.status_code in {401, 403}
    assert all(item.alert is None for item in the_items(store))
    app.extensions["store"].close()


@pytest.mark.parametrize(
    ("said", "status", "sentence"),
    [
        ({"state": "wrong"}, 400, "There is no state “wrong”"),
        ({"link": "javascript:alert(1)"}, 400, "A link must begin with http"),
        ({"assignee": "", "link": ""}, 400, "The form is empty"),
        ({"state": "expected", "item": ""}, 409, "has changed since you saw it"),
        ({"move": "sideways"}, 400, "“earlier” or “later”"),
        ({"note": "x" * 10_001}, 400, "longer than 10,000"),
        ({"state": "expected", "csrf_token": "forged"}, 403, "has expired"),
    ],
)
def test_an_invalid_decision_is_refused_with_a_message(
    client: FlaskClient, store: Store, said: dict[str, str], status: int, sentence: str
) -> None:
    answer = client.post(LIST, data=fields(client, the_items(store)[0]) | said)
    assert (answer.status_code, sentence in answer.text) == (status, True)
    assert all(item.alert is None for item in the_items(store))


def test_a_missing_choice_of_items_is_reported(client: FlaskClient, store: Store) -> None:
    said = fields(client, the_items(store)[0], state="expected")
    answer = client.post(LIST, data={name: value for name, value in said.items() if name != "item"})
    assert answer.status_code == 400
    assert "No regression is selected" in answer.text


@pytest.mark.parametrize(
    "back", ["https://evil.example/", "//evil.example", "/\\evil.example", "/\tx", "javascript:1", ""]
)
def test_a_form_leads_back_to_pages_of_ours_alone(client: FlaskClient, store: Store, back: str) -> None:
    answer = client.post(LIST, data=fields(client, the_items(store)[0], state="expected", back=back))
    assert answer.headers["Location"] == f"{LIST}/alert-1#alert-1"


def test_states_and_periods_narrow_and_stay_in_the_address(client: FlaskClient, store: Store) -> None:
    client.post(LIST, data=fields(client, the_items(store)[1], state="false alarm"))
    assert "07aed399" not in client.get(LIST).text
    assert client.get(LIST).text.count("<article") == 1
    assert client.get(f"{LIST}?state=false-alarm").text.count("<article") == 1
    assert client.get(f"{LIST}?state=all").text.count("<article") == 2
    assert client.get(f"{LIST}?state=all&period=7").text.count("<article") == 1
    worst = client.get(f"{LIST}?state=all&order=worst&period=365").text
    assert worst.count("<article") == 2
    assert "worst first" in worst
    assert "No open regressions" not in worst
    assert "No regression matches" in client.get(f"{LIST}?state=resolved").text
    assert client.get(f"{LIST}?state=x&order=y&period=z&page=0").status_code == 200
    assert client.get(f"{LIST}/alert-99").status_code == 404


def test_notes_are_written_from_anywhere_and_deleted_by_their_author(client: FlaskClient, store: Store) -> None:
    item = the_items(store)[1]
    key = item.regressions[0].series.key
    said = {**fields(client, item), "commit": item.commit.hash, "text": "new driver\nsince then"}
    answer = client.post("/kernels/notes", data={**said, "back": f"/kernels/series/{key}?x=date", "series": key})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/kernels/series/{key}?x=date#note-1")
    assert client.post("/kernels/notes", data=said).headers["Location"] == f"/kernels/commit/{item.commit.hash}#note-2"
    assert [(note.series, note.text) for note in annotations(store, "kernels")] == [
        (key, "new driver\nsince then"),
        (None, "new driver\nsince then"),
    ]
    page = client.get(LIST).text
    assert page.count("since then") == 2
    for path in (f"/kernels/commit/{item.commit.hash}", f"/kernels/series/{key}"):
        assert 'action="/kernels/notes"' in client.get(path).text
    assert "since then" in client.get(f"/kernels/commit/{item.commit.hash}").text
    gone = client.post("/kernels/notes/1/delete", data={**said, "back": LIST})
    assert (gone.status_code, gone.headers["Location"]) == (303, LIST)
    assert len(annotations(store, "kernels")) == 1
    for wrong, status in (
        ({"text": " "}, 400),
        ({"commit": "beef"}, 404),
        ({"series": "none"}, 404),
        ({"text": "x" * 10_001}, 400),
        ({"csrf_token": ""}, 403),
    ):
        assert client.post("/kernels/notes", data=said | wrong).status_code == status, wrong
    assert client.post("/kernels/notes/77/delete", data=said).status_code == 404
    assert client.post("/young/notes/2/delete", data=said).status_code == 404


def key(page: Page, letter: str) -> None:
    """Presses a key that sends a form, and waits for the page after it."""
    with page.expect_navigation():
        page.keyboard.press(letter)


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('[data-key-item]')?.id ?? ''"))


def test_keys_triage_one_card_after_another(url: str, store: Store, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(url + LIST)
    first, second = (item.seen.key for item in the_items(store))
    tab.page.keyboard.press("j")
    assert focused(tab.page) == first
    key(tab.page, "e")  # leaves the list: what took its place has the focus
    assert focused(tab.page) == second
    assert tab.page.locator("article").count() == 1
    key(tab.page, "a")  # stays
    assert focused(tab.page) == "alert-2"
    tab.page.locator(".ww-flash").wait_for()
    assert [item.state.value for item in the_items(store)] == ["expected", "acknowledged"]
    tab.page.keyboard.press("n")
    tab.page.keyboard.type("aexx: a note, no keys")
    with tab.page.expect_navigation():
        tab.page.keyboard.press("Control+Enter")
    key(tab.page, "m")
    key(tab.page, "[")
    alert = the_items(store)[1].alert
    assert alert is not None
    assert [event.kind for event in alert.events[2:]] == [EventKind.NOTED, EventKind.ASSIGNED, EventKind.MOVED]
    assert alert.events[2].note == "aexx: a note, no keys"
    assert alert.stated is not None
    assert alert.stated.commit.position == alert.commit.position - 1
    assert f"{alert.stated.author} says" in tab.page.locator("#alert-2").inner_text()
    tab.page.keyboard.press("o")
    tab.page.wait_for_url("**/regressions/alert-2")
    assert tab.complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_many_are_decided_at_once_by_keys_or_by_hand(
    url: str, store: Store, new_tab: Callable[..., Tab], width: int
) -> None:
    tab = new_tab(width=width)
    tab.open(f"{url}{LIST}?order=worst")
    bar = tab.page.locator("#bulk")
    assert bar.get_by_role("button", name="Expected").is_disabled()
    if width > 1000:
        for letter in "jxjx":
            tab.page.keyboard.press(letter)
        assert bar.inner_text().startswith("2 selected")
        tab.page.keyboard.press("n")
        tab.page.keyboard.type("both")
        tab.page.keyboard.press("Tab")  # out of the field
        key(tab.page, "f")
    else:
        bar.get_by_label("All of this page").check()
        bar.get_by_placeholder("Note on all").fill("both")
        with tab.page.expect_navigation():
            bar.get_by_role("button", name="False alarm").click()
    assert "2 alerts set to “false alarm”." in tab.page.locator(".ww-flash").inner_text()
    assert "order=worst" in tab.page.url
    items = the_items(store)
    assert [(item.state.value, item.alert.events[-1].note) for item in items if item.alert] == [
        ("false alarm", "both")
    ] * 2
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []


def test_a_card_that_changed_under_ones_hands_says_so(url: str, store: Store, new_tab: Callable[..., Tab]) -> None:
    early, late = new_tab(), new_tab()
    for tab in (early, late):
        tab.open(url + LIST)
    for tab in (early, late):
        tab.page.keyboard.press("j")
        key(tab.page, "r")
    assert "item has changed since you saw it" in late.page.locator("main").inner_text()
    assert the_items(store)[0].alert.version == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_words_stay_words(url: str, store: Store, new_tab: Callable[..., Tab], width: int) -> None:
    tab = new_tab(width=width)
    tab.open(url + LIST)
    item = tab.page.locator("article").first
    item.get_by_text("Note, assignee, link").click()
    item.get_by_label("Note", exact=True).fill(HOSTILE)
    item.get_by_label("Assignee").fill(HOSTILE)
    item.get_by_label("Link").fill("https://example.org/" + HOSTILE.replace(" ", "+"))
    with tab.page.expect_navigation():
        item.get_by_role("button", name="Save").click()
    commit = the_items(store)[0].commit.hash
    add_annotation(store, "kernels", commit, author=HOSTILE, text=HOSTILE, now_ms=1)
    for path in (LIST, f"{LIST}/alert-1"):
        tab.open(url + path)
        assert HOSTILE in (tab.page.locator("#alert-1").text_content() or "")
        assert tab.page.title() != "owned"
        assert tab.page.locator("img[src=x]").count() == 0
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.page.locator("a[href^='https://example.org/']").first.get_attribute("rel") == (
            "noopener noreferrer nofollow"
        )
    assert tab.complaints == []


def test_a_hostile_project_is_triaged_too(client: FlaskClient, store: Store) -> None:
    name = HOSTILE.replace("~", "~0").replace("/", "~1")
    items = the_items(store, HOSTILE)
    assert items
    page = client.get(f"/{name}/regressions")
    assert page.status_code == 200
    assert "<img src=x" not in page.text
    said = {
        "csrf_token": field_of(page.text, "csrf_token"),
        "state": "expected",
        "item": f"{items[0].seen.key} {items[0].seen.version}",
    }
    assert client.post(f"/{name}/regressions", data=said).status_code == 303
    assert the_items(store, HOSTILE)[0].state.value == "expected"


def test_a_note_is_deleted_by_its_author_and_a_reader_writes_none(own: Settings, store: Store) -> None:
    login = AccessSettings(
        login=ProxyLogin(),
        proxies=(ipaddress.ip_network("127.0.0.0/8"),),
        secret_key="k" * 40,
        triagers=("ada", "bo"),
        public_url="http://localhost",
    )
    app = create_app(replace(own, access=login))
    item = the_items(store)[1]

    def send(who: str, path: str, **said: str) -> int:
        client = app.test_client()
        headers = {"X-Forwarded-User": who}
        token = re.search(r'name="csrf_token" value="([^"]*)"', client.get(LIST, headers=headers).text)
        said |= {"csrf_token": token[1] if token else "", "commit": item.commit.hash}
        return client.post(path, data=said, headers=headers).status_code

    assert send("ada", "/kernels/notes", text="mine") == 303
    (note,) = annotations(store, "kernels")
    assert note.author == "ada"
    assert send("bo", f"/kernels/notes/{note.id}/delete") == 403
    assert send("cy", "/kernels/notes", text="a reader's") == 403
    assert len(annotations(store, "kernels")) == 1
    pages = {who: app.test_client().get(LIST, headers={"X-Forwarded-User": who}).text for who in ("ada", "bo", "cy")}
    assert [f"/notes/{note.id}/delete" in pages[who] for who in ("ada", "bo", "cy")] == [True, False, False]
    assert ["ww-actions" in pages[who] for who in ("ada", "bo", "cy")] == [True, True, False]
    assert send("ada", f"/kernels/notes/{note.id}/delete") == 303
    app.extensions["store"].close()


def test_a_commit_assigned_by_a_person_is_on_the_series_page_too(client: FlaskClient, store: Store) -> None:
    item = the_items(store)[0]
    page = f"/kernels/series/{item.regressions[0].series.key}"
    assert " says</strong>" not in client.get(page).text
    assert client.post(LIST, data=fields(client, item, move="earlier")).status_code == 303
    (said,) = re.findall(r"<li><strong>[^<]+ says</strong>(.*?)</li>", client.get(page).text, re.DOTALL)
    assert item.commit.hash in said  # where the detector found it
    assert item.previous_commit.hash in said
    assert f"{LIST}/alert-" in said
