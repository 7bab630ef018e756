"""A gate judges the series that it measured, whatever else the store has of the two commits."""

from pathlib import Path

import pytest

from tests.asv_results import AsvResults
from tests.ci.judged_repository import judged_repository
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.comparison import Comparison, Outcome
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

BEGAN_MS = 5_000


def _measured(root: Path, *, at: tuple[bool, bool]) -> Comparison:
    """All was recorded before, with rope slower at head; then `sum` was measured anew at base and at head."""
    database = f"sqlite:///{root / 'h.db'}"
    repository = judged_repository(root, database=database, slower={("rope.Rope.track_latency", "fp16"): 0.5})
    store = Store(database)
    results = AsvResults(root / "again")
    results.benchmark("sum.Sum.track_latency", dtype=["'fp16'", "'fp32'"])
    for number, (commit, is_measured) in enumerate(zip((repository.base, repository.head), at, strict=True)):
        if is_measured:
            row = results.row([50.01e-6, None], [["'fp16'", "'fp32'"]], started_at=BEGAN_MS + number, spread=0.002)
            results.commit(number, {"sum.Sum.track_latency": row}, commit=commit)
    import_results(store, open_folder(results.folder, project="demo", repository=repository.folder), workers=1)
    ends = [queries.find_commit(store, "demo", commit) for commit in (repository.base, repository.head)]
    assert ends[0] is not None
    assert ends[1] is not None
    assert check(store, "demo", *ends, threshold=0.02).outcome is Outcome.REGRESSED
    found = check(store, "demo", *ends, threshold=0.02, since_ms=BEGAN_MS)
    store.close()
    return found


@pytest.mark.parametrize("at", [(True, True), (True, False), (False, True)])
def test_earlier_results_of_other_benchmarks_decide_nothing(at: tuple[bool, bool], tmp_path: Path) -> None:
    found = _measured(tmp_path, at=at)
    assert {row.series.benchmark for row in found.rows} == {"sum.Sum.track_latency"}
    assert found.count(Verdict.REGRESSED) == 0
    assert found.outcome is Outcome.UNCHANGED
