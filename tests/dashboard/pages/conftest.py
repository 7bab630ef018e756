"""The dashboard as it runs: an application on a temporary store, a real socket, the machine's Chromium."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.dashboard.pages.browsing import HOSTILE, Tab, serving
from tests.dashboard.pages.recorded import write_recorded
from tests.once_per_run import once_per_run
from tests.stored import copy_database, stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.alert import TriageFilter
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.store import Store, queries

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # Debian's, older Ubuntus', GitHub's machines'
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",  # or each tab starts a process, which compiles all scripts again
)
PATIENCE_MS = 120_000  # for a browser on a machine that has other work; Playwright's own is 30 s


@pytest.fixture(scope="session")
def history_store(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return recorded_history(tmp_path_factory)


def recorded_history(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A store with three projects: a history with context, a hostile one, and one with a single commit."""
    return _settings(once_per_run(tmp_path_factory, "recorded", _record))


def _settings(folder: Path) -> Settings:
    return Settings(database=f"sqlite:///{folder / 'history.db'}")


def _record(folder: Path) -> None:
    store = Store(_settings(folder).database)
    for name in ("kernels", "young"):
        (folder / name).mkdir()
        commits = {"commits": 1} if name == "young" else {}
        repository, results = write_recorded(folder / name, **commits)
        import_results(store, open_folder(results, project=name, repository=repository))
    import_results(store, open_folder(write_hostile(folder / "hostile"), project=HOSTILE))
    analyse(store)
    store.close()


@pytest.fixture
def own(history_store: Settings, tmp_path: Path) -> Settings:
    """A copy of the recorded history that a test may change, served to the one at this machine."""
    database = copy_database(history_store.database, tmp_path / "history.db")
    return Settings(database=database, access=AccessSettings(served_on="127.0.0.1"))


def write_hostile(folder: Path) -> Path:
    """Results in which everything that can be named is called like an attack."""
    machine = folder / "machine"
    machine.mkdir(parents=True)
    name = "suite.Names.time_it"
    (folder / "benchmarks.json").write_text(
        json.dumps(
            {
                name: {
                    "name": name,
                    "param_names": [HOSTILE],
                    "params": [[repr(HOSTILE)]],
                    "type": "time",
                    "unit": "seconds",
                }
            }
        )
    )
    (machine / "machine.json").write_text(json.dumps({"machine": HOSTILE, "cpu": HOSTILE, "version": 1}))
    for index in range(6):
        date = int(datetime(2026, 1, 1 + index, tzinfo=UTC).timestamp() * 1000)
        commit = f"{index:x}" * 40
        result = {
            "commit_hash": commit,
            "env_name": HOSTILE.replace("/", ""),
            "date": date,
            "params": {},
            "version": 2,
            "result_columns": ["result", "params", "version"],
            "results": {name: [[0.001 * (1 + index)], [[repr(HOSTILE)]], HOSTILE]},
        }
        (machine / f"{commit[:8]}-hostile.json").write_text(json.dumps(result))
    return folder


@pytest.fixture(scope="session")
def address(history_store: Settings) -> Iterator[str]:
    """Where the dashboard serves the recorded history."""
    with serving(history_store) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's Chromium or Chrome."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on PATH (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=list(CHROMIUM_ARGUMENTS), timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def browser_context(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all tests: each would otherwise fetch and compile plotly.js again.

    An empty page stays open, and with it the process that has the compiled scripts.
    """
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    empty = context.new_page()
    empty.route("**", lambda route: route.fulfill(body=""))
    empty.goto("http://127.0.0.1/")
    yield context
    context.close()


@pytest.fixture
def new_tab(browser_context: BrowserContext) -> Iterator[Callable[..., Tab]]:
    """Opens tabs of a width and colour scheme; each collects console errors, exceptions and refused requests."""
    with tabs_of(browser_context) as open_tab:
        yield open_tab


@contextmanager
def tabs_of(context: BrowserContext) -> Iterator[Callable[..., Tab]]:
    """As `new_tab`, for fixtures that keep their tabs longer. In the end nothing but the caches is left."""
    pages: list[Page] = []

    def open_tab(width: int = 1440, scheme: Literal["light", "dark"] = "light") -> Tab:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        tab = Tab(page=page, complaints=[])
        page.on("console", lambda m: tab.complaints.append(m.text) if m.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on("requestfailed", lambda request: _note_failure(tab, request))
        pages.append(page)
        return tab

    yield open_tab
    for page in pages:
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
        page.close()
    context.clear_cookies()


def _note_failure(tab: Tab, request: Request) -> None:
    if request.failure != "net::ERR_ABORTED":  # the tab went on to another page before it had all of this one
        tab.complaints.append(f"failed: {request.url}")


@pytest.fixture(scope="session")
def addresses(history_store: Settings) -> dict[str, str]:
    """Keys of series worth a page, and the commit that slowed decode attention."""
    store = Store(history_store.database)
    found = {
        name: queries.find_series(store, project, search=search, machine=machine).series[0].key
        for name, project, search, machine in (
            ("slowed", "kernels", "decode warpwatch track_latency", "runner-t4"),
            ("throttled", "kernels", "int4_linear m16 warpwatch track_latency", "nvidia-h200"),
            ("failed", "kernels", "int4_linear m1 triton track_latency", "runner-t4"),
            ("young", "young", "rope warpwatch track_latency", "nvidia-h200"),
            ("profiled", "kernels", "rope s2048 warpwatch track_latency", "nvidia-h200"),
            ("launches", "kernels", "rope s2048 triton kernels_launched", "nvidia-h200"),
            ("unmeasured", "kernels", "rope s2048 warpwatch track_latency", "runner-t4"),
            ("share", "kernels", "rope s2048 warpwatch sol_peak", "nvidia-h200"),
            ("hostile", HOSTILE, "time_it", None),
        )
    }
    (slower,) = stored_history(store, found["slowed"]).changes  # type: ignore[union-attr]
    (card,) = queries.triage_items(store, "kernels", TriageFilter(machine="runner-t4")).items
    store.close()
    return {**found, "slow_commit": slower.commit.hash, "card": card.seen.key}
