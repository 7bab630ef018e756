"""Importing asv's files: once each, in order, whatever they hold. On SQLite and on PostgreSQL."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stored import stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers import import_asv as import_results_module
from warpwatch.dashboard.importers.asv_folder import NoResultsError, open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.series import Point, Status
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"


def _points(store: Store, search: str = "Bench", project: str = "demo") -> list[Point]:
    """The points of the only series that matches."""
    found = queries.find_series(store, project, search=search)
    assert found.total == 1, [series.title for series in found.series]
    history = stored_history(store, found.series[0].key)
    assert history is not None
    return list(history.points)


def _values(store: Store, search: str = "Bench") -> list[float | None]:
    return [point.value for point in _points(store, search)]


def test_values_arrive_in_the_order_of_their_commits(store: Store, timed_history: Callable[..., Any]) -> None:
    summary = timed_history([1.0, 2.0, 3.0]).load(store)
    assert (summary.points, summary.files, summary.unchanged) == (3, 3, 0)
    points = _points(store)
    assert [point.value for point in points] == [1.0, 2.0, 3.0]
    assert [point.commit.position for point in points] == [0, 1, 2]
    assert (points[0].q25, points[0].q75, points[0].sample_count) == (0.998, 1.002, 10)


def test_a_second_import_adds_nothing_and_reads_nothing(store: Store, timed_history: Callable[..., Any]) -> None:
    results = timed_history([1.0, 2.0])
    results.load(store)
    again = results.load(store)
    assert (again.points, again.unchanged) == (0, 2)
    assert _values(store) == [1.0, 2.0]


def test_a_resaved_file_adds_only_what_is_new_in_it(store: Store, asv: Any) -> None:
    old = asv.row([1.0], started_at=10, spread=0.01)
    asv.commit(1, {BENCH: old})
    asv.load(store)
    asv.commit(1, {BENCH: old, "suite.Other.track_latency": asv.row([5.0], started_at=20)})
    assert asv.load(store).points == 1
    assert (_values(store), _values(store, "Other")) == ([1.0], [5.0])


def test_a_rerun_adds_a_value_and_keeps_the_old_one(store: Store, asv: Any) -> None:
    """asv overwrites its file; the history does not."""
    asv.commit(1, {BENCH: asv.row([1.0], started_at=10, spread=0.01)})
    asv.load(store)
    asv.commit(1, {BENCH: asv.row([1.1], started_at=20, spread=0.01)})
    assert asv.load(store).points == 1
    points = _points(store)
    assert [point.value for point in points] == [1.0, 1.1]
    assert len({point.run for point in points}) == 2


def test_the_old_file_coming_back_adds_nothing(store: Store, asv: Any) -> None:
    rows = {BENCH: asv.row([1.0], started_at=10, spread=0.01)}, {BENCH: asv.row([1.1], started_at=20, spread=0.01)}
    for which in (0, 1, 0, 1):
        asv.commit(1, rows[which])
        asv.load(store)
    assert _values(store) == [1.0, 1.1]


def test_a_count_in_a_resaved_file_is_not_a_second_value(store: Store, asv: Any) -> None:
    """Counts are equal in every run, so their values do not show that an entry is in already."""
    name = "suite.Code.track_registers"
    registers = asv.row([96], started_at=10)
    asv.commit(1, {name: registers})
    asv.load(store)
    asv.commit(1, {name: registers, BENCH: asv.row([1.0], started_at=20)})
    asv.load(store)
    assert _values(store, "registers") == [96.0]


def test_what_a_partial_rerun_carried_over_is_not_a_second_value(store: Store, asv: Any) -> None:
    """asv run --bench "f(2)" gives the whole benchmark a new start time and keeps the other combinations' values."""
    params = [["1", "2"]]
    asv.commit(1, {BENCH: asv.row([1.0, 2.0], params, started_at=10, spread=0.01)})
    asv.load(store)
    asv.commit(1, {BENCH: asv.row([1.0, 2.2], params, started_at=20, spread=0.01)})
    assert asv.load(store).points == 1
    assert _values(store, "Bench 2") == [2.0, 2.2]


def test_two_runs_of_a_commit_in_one_import_are_compared_too(store: Store, asv: Any) -> None:
    """Their files lie in two folders; the points of the first are not stored when the second is added."""
    params = [["1", "2"]]
    asv.commit(1, {BENCH: asv.row([1.0, 2.0], params, started_at=10, spread=0.01)}, folder="first run")
    asv.commit(1, {BENCH: asv.row([1.0, 2.2], params, started_at=20, spread=0.01)}, folder="second run")
    assert asv.load(store).points == 3
    assert _values(store, "Bench 2") == [2.0, 2.2]


def test_equal_counts_of_a_rerun_are_a_second_value(store: Store, asv: Any) -> None:
    """Registers are equal in every run; that is agreement, not a copy."""
    asv.benchmark("suite.Code.track_registers", unit="registers")
    for started in (10, 20):
        asv.commit(1, {"suite.Code.track_registers": asv.row([96], started_at=started)})
        asv.load(store)
    assert _values(store, "registers") == [96.0, 96.0]


def test_points_that_are_no_numbers_are_kept_with_their_reason(store: Store, asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([None, float("nan"), float("inf"), 1.0], [["1", "2", "3", "4"]])})
    asv.load(store)
    shown = {}
    for series in queries.find_series(store, "demo").series:
        history = stored_history(store, series.key)
        assert history is not None
        shown[series.parameters[0][1]] = history.points[0].status
    assert shown == {"1": Status.FAILED, "2": Status.UNAVAILABLE, "3": Status.INVALID, "4": Status.OK}


def test_a_broken_file_is_set_aside_and_taken_when_mended(store: Store, timed_history: Callable[..., Any]) -> None:
    results = timed_history([1.0, 2.0, 3.0])
    broken = sorted((results.folder / "box").glob("0*.json"))[1]
    whole = broken.read_text()
    broken.write_text(whole[:100])
    summary = results.load(store)
    assert len(summary.set_aside) == 1
    assert str(broken) in summary.set_aside[0]
    assert "not JSON" in summary.set_aside[0]
    assert _values(store) == [1.0, 3.0]
    broken.write_text(whole)
    assert results.load(store).set_aside == ()
    assert _values(store) == [1.0, 2.0, 3.0]


def test_text_that_a_database_refuses_costs_its_own_file_alone(store: Store, asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)})
    asv.commit(2, {BENCH: asv.row([2.0], [["a\x00b"]], started_at=2)})
    asv.commit(3, {BENCH: asv.row([3.0], started_at=3)})
    asv.load(store)  # SQLite takes a NUL, PostgreSQL does not
    titles = {series.title: stored_history(store, series.key) for series in queries.find_series(store, "demo").series}
    history = titles[BENCH]
    assert history is not None
    assert [point.value for point in history.points] == [1.0, 3.0]


def test_two_folders_of_one_machine_are_one_machine(store: Store, asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)}, machine="gpu (T4)", folder="gpu (T4)")
    asv.commit(2, {BENCH: asv.row([2.0], started_at=2)}, machine="gpu (T4)", folder="old runner")
    asv.load(store)
    assert [machine.name for machine in queries.machines(store, "demo")] == ["gpu (T4)"]
    assert _values(store) == [1.0, 2.0]


def test_the_same_commit_in_two_folders_is_two_runs(store: Store, asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)}, folder="here")
    asv.commit(1, {BENCH: asv.row([1.5], started_at=2)}, folder="there")
    asv.load(store)
    assert _values(store) == [1.0, 1.5]


def test_a_copied_folder_adds_nothing(store: Store, asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)}, folder="here")
    asv.commit(1, {BENCH: asv.row([1.0], started_at=1)}, folder="copy of here")
    asv.load(store)
    assert _values(store) == [1.0]


def test_environments_and_machines_are_series_of_their_own(store: Store, asv: Any) -> None:
    asv.commit(1, {BENCH: asv.row([1.0])}, environment="py3.11")
    asv.commit(1, {BENCH: asv.row([2.0])}, environment="py3.12")
    asv.commit(1, {BENCH: asv.row([3.0])}, machine="other")
    asv.load(store)
    assert queries.find_series(store, "demo").total == 3


def test_a_benchmark_listed_no_longer_is_kept_and_marked(store: Store, asv: Any) -> None:
    asv.benchmark("suite.New.time_it", kind="time")
    asv.commit(1, {"suite.New.time_it": asv.row([1.0]), "suite.Gone.time_it": asv.row([2.0], [["1"]])})
    asv.load(store)
    listed = {series.benchmark: series for series in queries.find_series(store, "demo").series}
    assert listed["suite.New.time_it"].listed
    assert not listed["suite.Gone.time_it"].listed
    assert listed["suite.Gone.time_it"].metric.unit == "seconds"
    assert [row.series.benchmark for row in queries.overview(store, "demo")] == ["suite.New.time_it"]


def test_a_parameter_dropped_from_the_list_is_kept_and_marked(store: Store, asv: Any) -> None:
    asv.benchmark(BENCH, size=["1", "2"])
    asv.commit(1, {BENCH: asv.row([1.0, 2.0], [["1", "2"]], started_at=1)})
    asv.load(store)
    asv.benchmark(BENCH, size=["2", "3"])
    asv.commit(2, {BENCH: asv.row([2.0, 3.0], [["2", "3"]], started_at=2)})
    asv.load(store)
    listed = {series.parameters[0][1]: series.listed for series in queries.find_series(store, "demo").series}
    assert listed == {"1": False, "2": True, "3": True}
    assert _values(store, "Bench 2") == [2.0, 2.0]


def test_without_benchmarks_json_everything_still_goes_in(store: Store, asv: Any) -> None:
    asv.commit(1, {"suite.Bench.time_it": asv.row([1.0], [["'a'"]])})
    (asv.folder / "benchmarks.json").write_text("{broken")
    summary = asv.load(store)
    assert "benchmarks.json" in summary.warnings[0]
    assert _values(store) == [1.0]
    assert queries.find_series(store, "demo").series[0].metric.unit == "seconds"


def test_what_was_analysed_before_its_commit_had_a_place_is_analysed_again(
    store: Store, timed_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two imports at once: the one's analysis comes between the other's files and its order of commits."""
    timed_history([5.0], first=5).load(store)
    order = import_results_module.put_in_order

    def analyse_and_order(store: Store, writer: Any, **more: Any) -> list[str]:
        analyse(store)
        return order(store, writer, **more)

    monkeypatch.setattr(import_results_module, "put_in_order", analyse_and_order)
    timed_history([1.0]).load(store)
    assert [row.value for row in queries.overview(store, "demo")] == [5.0]


def test_series_keys_are_the_same_in_every_store(tmp_path: Path, timed_history: Callable[..., Any]) -> None:
    results = timed_history([1.0])
    keys = []
    for name in ("one", "two"):
        store = Store(str(tmp_path / f"{name}.db"))
        results.load(store)
        keys.append(queries.find_series(store, "demo").series[0].key)
        store.close()
    assert keys[0] == keys[1]


def test_projects_do_not_mix(store: Store, timed_history: Callable[..., Any]) -> None:
    results = timed_history([1.0, 2.0])
    results.load(store, project="one")
    results.load(store, project="two")
    assert {project.name: project.series for project in queries.projects(store)} == {"one": 1, "two": 1}
    assert len(_points(store, project="one")) == 2


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Five commits, the third made with a clock that was a year behind."""
    folder = tmp_path / "repo"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    for number in range(5):
        day = "2024-01-03" if number == 2 else f"2025-01-{number + 1:02}"
        stamp = f"{day}T00:00:00+00:00"
        command = [
            "git",
            "-C",
            str(folder),
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            f"change {number} | with a bar",
        ]
        environment = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp, "PATH": "/usr/bin:/bin:/usr/local/bin"}
        subprocess.run(command, check=True, env=environment)
    return folder


def test_a_repository_gives_order_subject_author_and_gaps(store: Store, asv: Any, repository: Path) -> None:
    hashes = _git(repository, "log", "--reverse", "--format=%H").splitlines()
    for number in (4, 2, 1):
        asv.commit(10 - number, {BENCH: asv.row([float(number)], started_at=number)}, commit=hashes[number])
    asv.load(store, repository=repository)
    points = _points(store)
    assert [point.value for point in points] == [1.0, 2.0, 4.0]
    assert [point.commit.subject for point in points] == [f"change {n} | with a bar" for n in (1, 2, 4)]
    assert [point.commit.unmeasured_before for point in points] == [None, 0, 1]
    assert points[0].commit.author == "Ada"
    assert points[1].commit.parents == (hashes[1],)


def test_the_repository_is_remembered_for_later_imports(store: Store, asv: Any, repository: Path) -> None:
    hashes = _git(repository, "log", "--reverse", "--format=%H").splitlines()
    asv.commit(9, {BENCH: asv.row([1.0], started_at=1)}, commit=hashes[1])
    asv.load(store, repository=repository)
    asv.commit(1, {BENCH: asv.row([2.0], started_at=2)}, commit=hashes[3])
    asv.load(store)
    assert [point.commit.subject for point in _points(store)] == ["change 1 | with a bar", "change 3 | with a bar"]


def test_a_commit_the_repository_lost_is_placed_by_its_date(store: Store, asv: Any, repository: Path) -> None:
    hashes = _git(repository, "log", "--reverse", "--format=%H").splitlines()
    for number in (0, 1, 4):
        asv.commit(number, {BENCH: asv.row([float(number)], started_at=number + 1)}, commit=hashes[number])
    lost = asv.commit(7, {BENCH: asv.row([99.0], started_at=7)}, commit="f" * 40)
    data = json.loads(lost.read_text()) | {"date": 1_735_732_800_000}  # noon of 2025-01-01, between the first two
    lost.write_text(json.dumps(data))
    asv.load(store, repository=repository)
    assert _values(store) == [0.0, 99.0, 1.0, 4.0]


def test_commits_that_change_places_are_analysed_again(store: Store, asv: Any, repository: Path) -> None:
    """By their dates the slow commit is the first; the repository knows better when it comes to be known."""
    hashes = _git(repository, "log", "--reverse", "--format=%H").splitlines()
    for number, date in ((2, 0), (0, 1), (1, 2)):
        value = 3.0 if number == 2 else 1.0
        asv.commit(date, {BENCH: asv.row([value], started_at=number + 1)}, commit=hashes[number])
    asv.load(store)
    assert queries.regressions(store, "demo") == ()
    asv.load(store, repository=repository)
    (group,) = queries.regressions(store, "demo")
    assert group.commit.hash == hashes[2]


def test_a_folder_with_asvs_configuration_names_project_results_and_repository(
    sqlite_store: Store, asv: Any, repository: Path
) -> None:
    head = _git(repository, "rev-parse", "HEAD")
    asv.folder = repository / "bench" / "results"
    asv.commit(1, {BENCH: asv.row([1.0])}, commit=head)
    (repository / "bench" / "asv.conf.json").write_text(
        '{"version": 1, // asv allows comments\n "project": "kernels", "repo": "..", "results_dir": "results"}'
    )
    folder = open_folder(repository / "bench")
    assert (folder.project, folder.repository) == ("kernels", repository.resolve())
    import_results(sqlite_store, folder)
    analyse(sqlite_store)
    assert queries.commits(sqlite_store, "kernels")[0].subject == "change 4 | with a bar"


def test_a_path_without_results_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(NoResultsError, match="does not exist"):
        open_folder(tmp_path / "nowhere")
    with pytest.raises(NoResultsError, match="neither"):
        open_folder(tmp_path)
