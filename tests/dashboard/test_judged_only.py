"""Between the analysis of series and the classification on their machine no false regression is reported."""

from typing import Any

import pytest

from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tests.stored import new_regressions, stored_history
from tools.store_state import state_of
from warpwatch.dashboard.analysis import series_analysis
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.alert import TriageFilter
from warpwatch.dashboard.model.changepoint import SeriesChange
from warpwatch.dashboard.model.verdict import ChangeKind, Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app


class _KilledError(Exception):
    pass


def _killed_before_the_judgement(store: Store, asv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports and analyses, and ends where every finding is written and none is judged."""

    def classify_machines(*_: Any, **__: Any) -> None:
        raise _KilledError

    with monkeypatch.context() as patched:
        patched.setattr(series_analysis, "classify_machines", classify_machines)
        with pytest.raises(_KilledError):
            asv.load(store)


def _suite(asv: Any, moved: dict[str, float], first: int, end: int) -> None:
    history = Suite(asv, workloads=("w1", "w2", "w3"))
    for number in range(first, end):
        history.commit(number, moved if number >= 25 else {})


def _only_change(store: Store) -> SeriesChange:
    (series, *_) = queries.find_series(store, "demo", search="w1 warpwatch").series
    history = stored_history(store, series.key)
    assert history is not None
    (change,) = history.changes
    return change


def _verdicts(store: Store) -> set[Verdict]:
    return {row.verdict for row in queries.overview(store, "demo") if row.series.implementation == "warpwatch"}


def test_a_changepoint_is_a_regression_only_once_it_is_classified(
    store: Store, asv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _suite(asv, {"warpwatch": 1.06}, 0, 40)
    _killed_before_the_judgement(store, asv, monkeypatch)
    assert _only_change(store).kind is ChangeKind.UNJUDGED
    assert queries.regressions(store, "demo") == new_regressions(store, "demo") == ()
    assert queries.triage_items(store, "demo", TriageFilter()).items == ()
    assert _verdicts(store) == {Verdict.INCONCLUSIVE}
    (group,) = queries.regressions(store, "demo", kind=ChangeKind.UNJUDGED)
    assert len(group.regressions) == 3
    (project,) = queries.projects(store)
    assert (project.unanalysed, project.unjudged) == (0, 1)
    asv.load(store)
    assert _only_change(store).kind is ChangeKind.STEP
    assert len(new_regressions(store, "demo")) == 1
    assert _verdicts(store) == {Verdict.REGRESSED}


@pytest.mark.parametrize("moved", [{"warpwatch": 1.06}, dict.fromkeys(("warpwatch", "eager", TRIAD, MATMUL), 1.06)])
def test_a_classification_holds_until_the_next_one(
    store: Store, asv: Any, monkeypatch: pytest.MonkeyPatch, moved: dict[str, float]
) -> None:
    _suite(asv, moved, 0, 34)
    asv.load(store)
    before, verdicts = _only_change(store), _verdicts(store)
    _suite(asv, moved, 34, 54)  # so many that the detector looks at each series again
    _killed_before_the_judgement(store, asv, monkeypatch)
    now = _only_change(store)
    assert now.ci_low != before.ci_low
    assert (now.kind, now.share, now.q_value) == (before.kind, before.share, before.q_value)
    assert _verdicts(store) == verdicts
    asv.load(store)
    after = state_of(store)
    fresh = Store(f"{asv.folder}-fresh.db")
    asv.load(fresh)
    assert state_of(fresh) == after
    fresh.close()


def test_pages_state_that_an_analysis_or_a_classification_is_due(
    sqlite_store: Store, asv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _suite(asv, {"warpwatch": 1.06}, 0, 40)
    import_results(sqlite_store, open_folder(asv.folder, project="demo"))
    pages = ("/demo/", "/demo/regressions", "/demo/series", "/demo/machines")
    client = create_app(Settings(database=str(sqlite_store.url))).test_client()
    assert all("Analysis is pending." in client.get(page).text for page in pages)
    (project,) = queries.projects(sqlite_store)
    assert (
        f"{project.series} of {project.series} series have new values or an older analysis" in client.get("/demo/").text
    )
    _killed_before_the_judgement(sqlite_store, asv, monkeypatch)
    assert all("Classification is pending." in client.get(page).text for page in pages)
    overview = client.get("/demo/").text
    assert "Changes on 1 machine are not classified yet" in overview
    assert "ww-verdict-unjudged" in overview
    assert "ww-verdict-new" not in overview
    (series, *_) = queries.find_series(sqlite_store, "demo", search="w1 warpwatch").series
    assert "Not classified" in client.get(f"/demo/series/{series.key}").text
    asv.load(sqlite_store)
    assert not any("ww-due" in client.get(page).text for page in pages)
    assert "Not classified" not in client.get(f"/demo/series/{series.key}").text
