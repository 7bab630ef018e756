"""The pages of what pytest-benchmark, NVBench and Google Benchmark measured: all answer, none offers asv's command."""

import urllib.request
from pathlib import Path

import pytest

from tests.dashboard.importers.recorded_files import RECORDED
from tests.dashboard.pages.browsing import serving
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.import_path import import_path
from warpwatch.dashboard.importers.input_files import ImportOverrides
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Three commits of each recorded file."""
    settings = Settings(database=f"sqlite:///{tmp_path_factory.mktemp('formats') / 'history.db'}")
    store = Store(settings.database)
    for number in range(3):
        given = ImportOverrides(commit=f"{number:x}" * 40, date_ms=1_760_000_000_000 + number * 86_400_000)
        for path in sorted(Path(RECORDED).glob("*.json")):
            assert import_path(store, path, project="demo", overrides=given).set_aside == ()
    analyse(store)
    store.close()
    return settings


def test_every_page_answers(settings: Settings) -> None:
    store = Store(settings.database)
    found = [queries.find_series(store, "demo", search=word).series[0] for word in ("test_sum", "copy_sweep", "matmul")]
    store.close()
    pages = ["", "series?q=", "roofline", "regressions", "commits", f"commit/{'0' * 40}", "machines"]
    pages += [f"series/{series.key}{more}" for series in found for more in ("", "/figure.json")]
    with serving(settings) as url:
        for page in pages:
            with urllib.request.urlopen(f"{url}/demo/{page}", timeout=30) as answer:
                text = answer.read().decode()
            assert answer.status == 200
            assert "Measure again" not in text, page
