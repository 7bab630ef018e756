"""`warpwatch bisect` on a real repository: sixteen commits, compiled and measured by asv, one of them slow."""

import json

import pytest

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
    made.environment["WARPWATCH_LOCK_FOLDER"] = str(folder.parent)  # so large a change is told beside other work
    return made


def _bisect(repository: PlantedRepository, *words: str) -> tuple[int, dict, str]:
    ends = (repository.commits[0], repository.commits[-1])
    # CPU times of a shared machine: 1 %, the default, is noise there.
    done = repository.warpwatch("bisect", "time_work", *ends, "--smallest", "0.2", "--format", "json", *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_the_slow_commit_is_named_by_two_calls_of_which_the_first_runs_out_of_time(
    repository: PlantedRepository,
) -> None:
    code, told, said = _bisect(repository, "--budget", "0.001")
    assert (code, told["end"], told["culprit"]) == (2, "spent", None), said
    begun = told["runs"]
    assert begun >= 4

    code, told, said = _bisect(repository)
    assert (code, told["end"]) == (0, "found"), (told, said)
    assert f"{begun} runs of the last week count too" in said
    assert told["culprit"] == repository.commits[CULPRIT]
    assert told["suspects"] == [told["culprit"]]
    assert told["confidence"] >= 0.99
    low, high = told["interval_95"]
    assert low < 0.6 < high or 0.3 < told["change"] < 1.0, told
    measured = {each["hash"] for each in told["commits"] if each["runs"]}
    assert len(measured) < 10
    assert not measured & {repository.commits[place] for place in (BROKEN, *NOTES)}

    store = Store(f"sqlite:///{repository.folder / '.warpwatch' / 'warpwatch.db'}")
    (note,) = annotations(store, "planted", commit=told["culprit"])
    store.close()
    assert (note.author, note.series, note.text) == ("warpwatch bisect", told["series"], told["says"])


def test_what_did_not_change_is_not_searched(repository: PlantedRepository) -> None:
    done = repository.warpwatch(
        "bisect", "time_work", repository.commits[CULPRIT + 1], "main", "--smallest", "0.3", "--budget", "5"
    )
    assert done.returncode in (1, 2), done.stdout + done.stderr  # a machine with other work may not be able to tell
    assert "brought" not in done.stdout


def test_a_good_commit_beside_the_bad_one_is_told_with_what_would_do(repository: PlantedRepository) -> None:
    done = repository.warpwatch("bisect", "time_work", "main", repository.commits[0])
    assert done.returncode == 2
    assert f"their merge base is {repository.commits[0][:12]}" in done.stderr
