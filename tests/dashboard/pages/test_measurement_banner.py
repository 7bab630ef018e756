"""While `make run` measures, the overview says how far it is and turns into its results without being loaded again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import Tab, faults, serving_app
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.measurement import Count, Current, Measurement, show_on

NAME = "suite.Bench.track_latency"
COMPILING = Measurement(state="running", commit=1, commits=3, compiled=Count(done=43, total=112))
MEASURING = Measurement(
    state="running",
    commit=2,
    commits=3,
    compiled=Count(done=112, total=112),
    triton=Count(done=7, total=80),
    measured=Count(done=12, total=40),
    left_s=330.0,
)


@dataclass
class Measured:
    """A project of two commits of one machine, on a dashboard that measures."""

    app: Flask
    current: Current
    results: AsvResults
    store: Store

    def import_results_of(self, machine: str) -> None:
        self.results.commit(1, {NAME: self.results.row([1.0], started_at=9, spread=0.002)}, machine=machine)
        self.results.load(self.store)


@pytest.fixture
def measured(tmp_path: Path, timed_history: Callable[..., AsvResults]) -> Iterator[Measured]:
    settings = Settings(database=str(tmp_path / "history.db"), access=AccessSettings(served_on="127.0.0.1"))
    store = Store(settings.database)
    results = timed_history([1.0, 1.0], name=NAME)
    results.load(store)
    app = create_app(settings)
    current = Current(project="demo", now=COMPILING)
    show_on(app.extensions, current)
    yield Measured(app=app, current=current, results=results, store=store)
    store.close()
    app.extensions["store"].close()


@pytest.fixture
def page(measured: Measured, new_tab: Callable[..., Tab]) -> Iterator[Page]:
    """The overview with its own clock, in a tab that complains of nothing."""
    with ExitStack() as stack:
        address = stack.enter_context(serving_app(measured.app))
        tab = new_tab()
        tab.page.clock.install()
        tab.open(f"{address}/demo/")
        tab.page.evaluate("window.firstDocument = true")
        yield tab.page
        assert tab.page.evaluate("window.firstDocument"), "the page was loaded again"
        assert tab.complaints == []


def look(page: Page) -> None:
    """Lets so much time pass that the page polls again."""
    with page.expect_response("**/api/projects/demo/measurement"):
        page.clock.run_for(2_500)


def test_the_banner_follows_the_measurement_and_turns_into_its_results(measured: Measured, page: Page) -> None:
    banner, facts = page.locator("#measurement"), page.locator(".ww-facts").first
    expect(banner).to_contain_text("commit 1 of 3 · compiling 43 of 112")
    measured.current.now = MEASURING
    look(page)
    expect(banner).to_contain_text(
        "commit 2 of 3 · compiled 112 · compiling Triton kernels 7 of 80 · measuring 12 of 40 · about 6 min left"
    )
    expect(facts).to_contain_text("box · 2 commits")

    measured.import_results_of("this-machine")
    measured.current.now = MEASURING.model_copy(update={"imports": 1})
    look(page)
    expect(facts).to_contain_text("2 machines")
    expect(banner).to_contain_text("commit 2 of 3")

    measured.import_results_of("another-machine")
    measured.current.now = Measurement(state="finished", imports=2)
    look(page)
    expect(banner).to_have_count(0)
    expect(facts).to_contain_text("3 machines")

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    page.wait_for_function("true")
    assert asked == []


def test_typed_words_are_not_lost(measured: Measured, page: Page) -> None:
    page.locator(".ww-filters input[type=search]").fill("lat")
    measured.import_results_of("this-machine")
    measured.current.now = MEASURING.model_copy(update={"imports": 1})
    look(page)
    page.wait_for_function("true")
    assert page.locator(".ww-filters input[type=search]").input_value() == "lat"
    page.locator("h1").click()
    look(page)
    expect(page.locator(".ww-facts").first).to_contain_text("2 machines")


def test_filters_of_the_new_content_apply_at_once(measured: Measured, page: Page) -> None:
    measured.import_results_of("this-machine")
    measured.current.now = MEASURING.model_copy(update={"imports": 1})
    look(page)
    page.locator("#machine").select_option("this-machine")
    page.wait_for_url("**/demo/?machine=this-machine")
    page.evaluate("window.firstDocument = true")  # of this address


def test_a_failure_stays_with_the_name_of_its_log(measured: Measured, page: Page) -> None:
    problem = "measuring ended with status 2; see .warpwatch/measure.log"
    measured.current.now = Measurement(state="failed", problem=problem)
    look(page)
    banner = page.locator("#measurement")
    expect(banner).to_contain_text(f"The measurement of this machine failed: {problem}")
    expect(page.locator("script[src*='measurement.js']")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", [MEASURING, Measurement(state="failed", problem="no network. " + "x" * 80)])
def test_the_banner_can_be_read_on_a_phone(
    scheme: str, state: Measurement, measured: Measured, new_tab: Callable[..., Tab]
) -> None:
    measured.current.now = state
    with serving_app(measured.app) as address:
        tab = new_tab(width=390, scheme=scheme)
        tab.open(f"{address}/demo/")
        assert tab.page.locator("#measurement").is_visible()
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert faults(tab) == []


def test_an_answer_is_never_of_an_earlier_state(measured: Measured) -> None:
    get = measured.app.test_client().get
    for now, text in ((COMPILING, "compiling 43"), (MEASURING, "measuring 12")):
        measured.current.now = now
        assert text in get("/demo/").text
        assert text in get("/api/projects/demo/measurement").get_json()["text"]


def test_without_a_measurement_there_is_no_banner_and_no_request(measured: Measured, tmp_path: Path) -> None:
    measured.current.project = "another"
    other = create_app(Settings(database=str(tmp_path / "history.db")))
    for app in (measured.app, other):
        get = app.test_client().get
        page = get("/demo/").text
        assert "Overview" in page
        assert "measurement" not in page
        assert get("/api/projects/demo/measurement").get_json()["state"] == "none"
    other.extensions["store"].close()
