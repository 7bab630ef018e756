"""Projects of others: each of their pages opens, and their long or many histories are drawn."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dashboard.pages.browsing import Tab, serving
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
PROJECTS = ("mjwarp-asv", "sunpy")

pytestmark = pytest.mark.skipif(
    not all((DATA / name).is_dir() for name in PROJECTS), reason=f"the real asv results are not at {DATA}"
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = Settings(database=f"sqlite:///{tmp_path_factory.mktemp('real') / 'real.db'}")
    store = Store(settings.database)
    for name in PROJECTS:
        import_results(store, open_folder(DATA / name, project=name))
    analyse(store)
    store.close()
    return settings


@pytest.mark.parametrize("project", PROJECTS)
def test_every_page_opens(project: str, real: Settings) -> None:
    client = create_app(real).test_client()
    for page in ("", "regressions", "roofline", "series", "commits", "machines"):
        assert client.get(f"/{project}/{page}").status_code == 200, page
    commit = re.findall(rf"/{project}/commit/([0-9a-f]{{40}})", client.get(f"/{project}/commits").text)[0]
    assert client.get(f"/{project}/commit/{commit}").status_code == 200


@pytest.mark.parametrize("project", PROJECTS)
def test_a_project_without_kernels_is_described_by_its_benchmarks(project: str, real: Settings) -> None:
    client = create_app(real).test_client()
    overview = client.get(f"/{project}/").text
    machine = re.findall(rf'"(/{project}/machines/[^"]+)"', overview)[0]
    for page in (overview, client.get(machine).text):
        text = re.sub(r"<header.*?</header>|<[^>]*>", "", page, flags=re.DOTALL)
        assert not re.search(r"\bkernels?\b|\d workloads?\b", text)
        assert re.search(r"\bbenchmarks\b", text)


@pytest.mark.parametrize("project", PROJECTS)
def test_no_suspect_of_a_card_has_a_chance_of_nothing(project: str, real: Settings) -> None:
    client = create_app(real).test_client()
    cards = set(re.findall(rf'"(/{project}/regressions/new-[^"?#]+)"', client.get(f"/{project}/regressions").text))
    assert cards
    for path in cards:
        suspects = re.search(r'<ol class="ww-suspects">(.*?)</ol>', client.get(path).text, re.DOTALL)
        assert suspects is not None
        assert not re.search(r">0(?:\.0)? %<", suspects[1]), path


@pytest.mark.parametrize("project", PROJECTS)
def test_every_series_has_a_page(project: str, real: Settings) -> None:
    store = Store(real.database)
    found = queries.find_series(store, project, limit=1000).series
    store.close()
    client = create_app(real).test_client()
    started = time.process_time()
    answers = {series.title: client.get(f"/{project}/series/{series.key}").status_code for series in found}
    assert set(answers.values()) == {200}
    assert len(answers) == {"mjwarp-asv": 280, "sunpy": 10}[project]
    # Meant for a page that takes seconds of work, however busy the machine is: 290 pages take 10.
    assert (time.process_time() - started) / len(answers) < 2


@pytest.fixture(scope="module")
def real_address(real: Settings) -> Iterator[str]:
    with serving(real) as url:
        yield url


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("project", PROJECTS)
def test_the_longest_histories_are_drawn(
    project: str, width: int, real: Settings, real_address: str, new_tab: Callable[..., Tab]
) -> None:
    store = Store(real.database)
    worst = queries.regressions(store, project)[0].regressions[0].series
    store.close()
    tab = new_tab(width=width)
    for path in (f"/{project}/", f"/{project}/regressions", f"/{project}/series/{worst.key}?x=date"):
        tab.open(real_address + path)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.page.locator(".ww-plot .point").count() > 50
    assert tab.complaints == []
