"""`warpwatch bisect` on a real repository: sixteen commits, compiled and measured by asv, one of them slow."""

import json

import pytest

from tests.asv_environment import put_asv_environment
from tools.planted_repository import PlantedRepository, planted_repository
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.notes import annotations

CULPRIT, BROKEN, NOTES = 11, 8, (3, 9, 12)

pytestmark = [pytest.mark.timing, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> PlantedRepository:
    """One of its commits does not compile, and some change a text alone."""
    folder = tmp_path_factory.mktemp("bisect") / "project"
    made = planted_repository(folder, commits=16, culprit=CULPRIT, change=0.6, broken=(BROKEN,), notes=NOTES)
    made.environment["WARPWATCH_LOCK_FOLDER"] = str(folder.parent)  # so large a change shows despite other work
    put_asv_environment(tmp_path_factory, made.folder)
    return made


def _bisect(repository: PlantedRepository, *words: str) -> tuple[int, dict, str]:
    ends = (repository.commits[0], repository.commits[-1])
    # CPU times of a shared machine: 1 %, the default, is noise there.
    done = repository.warpwatch("bisect", "time_work", *ends, "--smallest", "0.2", "--format", "json", *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_the_slow_commit_is_found_by_two_calls_of_which_the_first_runs_out_of_time(
    repository: PlantedRepository,
) -> None:
    code, report, errors = _bisect(repository, "--budget", "0.001")
    assert (code, report["conclusion"], report["culprit"]) == (2, "budget", None), errors
    first_runs = report["runs"]
    assert first_runs >= 4

    code, report, errors = _bisect(repository)
    assert (code, report["conclusion"]) == (0, "found"), (report, errors)
    assert f"{first_runs} runs of the last week count too" in errors
    assert report["culprit"] == repository.commits[CULPRIT]
    assert report["suspects"] == [report["culprit"]]
    assert report["confidence"] >= 0.99
    low, high = report["interval_95"]
    assert low < 0.6 < high or 0.3 < report["change"] < 1.0, report
    measured = {each["hash"] for each in report["commits"] if each["runs"]}
    assert len(measured) < 10
    assert not measured & {repository.commits[index] for index in (BROKEN, *NOTES)}

    store = Store(f"sqlite:///{repository.folder / '.warpwatch' / 'warpwatch.db'}")
    (note,) = annotations(store, "planted", commit=report["culprit"])
    store.close()
    assert (note.author, note.series, note.text) == ("warpwatch bisect", report["series"], report["headline"])


def test_without_a_change_no_commit_is_found(repository: PlantedRepository) -> None:
    done = repository.warpwatch(
        "bisect", "time_work", repository.commits[CULPRIT + 1], "main", "--smallest", "0.3", "--budget", "5"
    )
    assert done.returncode in (1, 2), done.stdout + done.stderr  # a machine with other work may remain inconclusive
    assert "caused" not in done.stdout


def test_a_good_commit_that_is_no_ancestor_is_refused_with_the_merge_base(repository: PlantedRepository) -> None:
    done = repository.warpwatch("bisect", "time_work", "main", repository.commits[0])
    assert done.returncode == 2
    assert f"their merge base is {repository.commits[0][:12]}" in done.stderr
