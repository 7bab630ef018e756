"""Files of other formats, folders and archives into the store: once each, in order, whatever they hold."""

import json
import os
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.dashboard.importers.recorded_files import COMMIT, GIVEN, RECORDED, recorded
from tests.stored import stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.archive import ArchiveTooLargeError
from warpwatch.dashboard.importers.asv_folder import NoResultsError
from warpwatch.dashboard.importers.import_asv import ImportSummary
from warpwatch.dashboard.importers.import_limits import ImportLimits
from warpwatch.dashboard.importers.import_path import import_path
from warpwatch.dashboard.importers.input_files import ImportOverrides
from warpwatch.dashboard.model.series import Point, Series, Status
from warpwatch.dashboard.store import Store, queries

BENCH = "suite.Bench.track_latency"
SAMPLES = "nv/json/bin:nv/cold/sample_times"
PYTEST = RECORDED / "pytest_benchmark.json"


def _load(store: Store, path: Path, **more: Any) -> ImportSummary:
    summary = import_path(store, path, project="demo", **more)
    analyse(store)
    return summary


def _series(store: Store, search: str = "") -> list[Series]:
    return list(queries.find_series(store, "demo", search=search).series)


def _points(store: Store, search: str) -> list[Point]:
    (series,) = _series(store, search)
    history = stored_history(store, series.key)
    assert history is not None
    return list(history.points)


def _pytest_file(folder: Path, number: int, median: float) -> Path:
    """One test's file of the number-th commit, as pytest-benchmark saves it."""
    data = recorded("pytest_benchmark.json")
    data["benchmarks"] = data["benchmarks"][:1]
    data["benchmarks"][0]["stats"]["median"] = median
    data["commit_info"] |= {"id": hash_of(number), "time": f"2026-01-{number + 1:02}T00:00:00+00:00"}
    data["datetime"] = f"2026-02-{28 - number:02}T00:00:00+00:00"  # measured the other way round
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:04}_{hash_of(number)}.json"
    path.write_text(json.dumps(data))
    return path


def _tar(path: Path, folder: Path, inside: str = ".") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, inside)
    return path


@pytest.mark.parametrize(
    ("file", "name", "unit", "metric", "parameters"),
    [
        ("pytest_benchmark.json", "test_b.test_sum", "seconds", "time", {"dtype": "fp16", "n": "100"}),
        (
            "nvbench.json",
            "copy_sweep_grid_shape.batch_latency",
            "seconds",
            "batch_latency",
            {"BlockSize": "256", "NumBlocks": "64"},
        ),
        ("google_benchmark.json", "matmul.bandwidth", "B/s", "bandwidth", {"n": "256", "threads": "2"}),
    ],
)
def test_units_metrics_and_parameters_are_those_of_the_file(
    sqlite_store: Store, file: str, name: str, unit: str, metric: str, parameters: dict[str, str]
) -> None:
    _load(sqlite_store, RECORDED / file, overrides=GIVEN)
    (found,) = (one for one in _series(sqlite_store, name) if dict(one.parameters) == parameters)
    assert (found.benchmark, found.metric.name, found.metric.unit, found.listed) == (name, metric, unit, True)


def test_a_second_import_adds_nothing(store: Store) -> None:
    for path in sorted(RECORDED.glob("*.json")):
        first, again = _load(store, path, overrides=GIVEN), _load(store, path, overrides=GIVEN)
        assert (first.files, first.unchanged, first.set_aside) == (1, 0, ())
        assert first.points > 0
        assert (again.files, again.unchanged, again.points) == (1, 1, 0)


def test_a_copy_under_another_name_adds_nothing(sqlite_store: Store, tmp_path: Path) -> None:
    _load(sqlite_store, PYTEST)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(PYTEST.read_bytes())
    assert _load(sqlite_store, copy).points == 0


def test_a_file_named_like_a_configuration_is_no_configuration(sqlite_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bench.config-a.json"
    path.write_bytes(PYTEST.read_bytes())
    assert _load(sqlite_store, path).points > 0


def test_each_run_of_a_commit_is_kept(sqlite_store: Store, tmp_path: Path) -> None:
    """The same file name with other content, as CI leaves it, is a re-run."""
    path = tmp_path / "out.json"
    for median in (1.0, 2.0):
        _pytest_file(tmp_path / "saved", 0, median).rename(path)
        _load(sqlite_store, path)
    points = _points(sqlite_store, "test_plain")
    assert sorted(point.value or 0 for point in points) == [1.0, 2.0]
    assert len({point.run for point in points}) == 2


def test_a_rerun_that_measured_the_same_to_the_last_digit_is_kept(sqlite_store: Store, tmp_path: Path) -> None:
    """A simulated time is the same in each run; only asv copies old values into new files."""
    data = recorded("google_benchmark.json")
    for second in (1, 2):
        data["context"]["date"] = f"2026-01-01T00:00:0{second}+00:00"
        (tmp_path / "out.json").write_text(json.dumps(data))
        _load(sqlite_store, tmp_path / "out.json", overrides=GIVEN)
    assert [point.value for point in _points(sqlite_store, "with_time.latency")] == [0.002, 0.002]


def test_the_same_file_of_another_commit_is_that_commits(sqlite_store: Store) -> None:
    for commit in (COMMIT, "cd" * 20):
        _load(sqlite_store, RECORDED / "google_benchmark.json", overrides=ImportOverrides(commit=commit, date_ms=1))
    assert [point.commit.hash for point in _points(sqlite_store, "sum_million.latency")] == [COMMIT, "cd" * 20]


def test_a_storage_folder_is_imported_in_the_order_of_commits(sqlite_store: Store, tmp_path: Path) -> None:
    folder = tmp_path / ".benchmarks"
    for number in (2, 0, 1):
        _pytest_file(folder / "Linux-CPython-3.11-64bit", number, float(number + 1))
    assert _load(sqlite_store, folder).files == 3
    assert [point.value for point in _points(sqlite_store, "test_plain")] == [1.0, 2.0, 3.0]
    _pytest_file(folder / "Linux-CPython-3.11-64bit", 3, 4.0)
    again = _load(sqlite_store, folder)
    assert (again.unchanged, again.points) == (3, 1)


def test_files_of_different_formats_and_none_share_a_folder(sqlite_store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    for path in RECORDED.iterdir():
        (folder / f"{path.stem}.out").write_bytes(path.read_bytes())
    (folder / "broken.json").write_bytes(PYTEST.read_bytes()[:500])
    (folder / "package.json").write_text('{"name": "x"}')
    summary = _load(sqlite_store, folder, overrides=GIVEN)
    assert summary.files == 5
    messages = {line.partition(": ")[0].rpartition("/")[2]: line for line in summary.set_aside}
    assert set(messages) == {"broken.json", "package.json", "README.out"}
    assert "not JSON" in messages["broken.json"]
    assert "no known format" in messages["package.json"]
    for search in ("test_b", "copy_sweep", "matmul"):
        assert _series(sqlite_store, search)


def test_each_gpu_of_a_file_is_a_machine_and_all_of_it_goes_in_at_once(sqlite_store: Store) -> None:
    _load(sqlite_store, RECORDED / "nvbench.json", overrides=GIVEN)
    assert [machine.name for machine in queries.machines(sqlite_store, "demo")] == ["Quadro GP100", "Quadro GV100"]
    skipped = next(s for s in _series(sqlite_store, "conversion") if s.parameters == (("In", "I8"), ("Out", "I8")))
    history = stored_history(sqlite_store, skipped.key)
    assert history is not None
    assert [(point.status, point.reason) for point in history.points] == [
        (Status.UNAVAILABLE, "Not a conversion: InputType == OutputType.")
    ]


def test_samples_next_to_an_nvbench_file_are_imported_with_it(sqlite_store: Store, tmp_path: Path) -> None:
    data = recorded("nvbench.json")
    data["benchmarks"] = data["benchmarks"][:1]
    states = data["benchmarks"][0]["states"] = data["benchmarks"][0]["states"][:1]
    item = {"name": "filename", "type": "string", "value": "elsewhere/out.json-bin/0.bin"}
    states[0]["summaries"].append({"tag": SAMPLES, "hint": "file/sample_times", "data": [item]})
    folder = tmp_path / "in"
    (folder / "out.json-bin").mkdir(parents=True)
    (folder / "out.json").write_text(json.dumps(data))
    (folder / "out.json-bin" / "0.bin").write_bytes(b"\x00\x00\x80\x3f\x00\x00\x00\x40")  # 1 and 2 as float32
    summary = _load(sqlite_store, folder, overrides=GIVEN)
    assert (summary.files, summary.set_aside) == (1, ())
    (point,) = _points(sqlite_store, "simple.latency")
    assert (point.sample_count, point.q25, point.q75) == (2, 1.25, 1.75)


@pytest.mark.parametrize(
    "where", ["../secret.bin", "out.json-bin/../secret.bin", "/etc/secret.bin", "a-bin/secret.bin"]
)
def test_nothing_is_read_outside_of_the_folder_of_samples(sqlite_store: Store, tmp_path: Path, where: str) -> None:
    data = recorded("nvbench.json")
    item = {"name": "filename", "type": "string", "value": where}
    data["benchmarks"][0]["states"][0]["summaries"].append({"tag": SAMPLES, "hint": "", "data": [item]})
    for folder in (tmp_path / "a-bin", tmp_path / "in" / "a-bin"):
        folder.mkdir(parents=True)
        (folder / "secret.bin").write_bytes(bytes(8))
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    (tmp_path / "in" / "out.json").write_text(json.dumps(data))
    _load(sqlite_store, tmp_path / "in" / "out.json", overrides=GIVEN)
    assert {point.sample_count for point in _points(sqlite_store, "simple.latency GV100")} == {499}


def test_missing_facts_are_requested_by_name(sqlite_store: Store) -> None:
    (line,) = _load(sqlite_store, RECORDED / "nvbench.json").set_aside
    assert line == (
        f"{RECORDED / 'nvbench.json'}: no commit: NVBench does not record it; give it (--commit, or commit= in a URL)"
    )
    with pytest.raises(NoResultsError, match=r"'v1.2'; expected a full hash .* the project has no repository"):
        _load(sqlite_store, RECORDED / "nvbench.json", overrides=ImportOverrides(commit="v1.2"))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_repository_knows_hash_date_and_subject(sqlite_store: Store, tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q", "-b", "main")
    for number in range(2):
        _git(tmp_path, "commit", "-q", "--allow-empty", "-m", f"change {number}")
    _git(tmp_path, "tag", "v1", "HEAD~1")
    for name in ("HEAD", "v1"):
        summary = _load(
            sqlite_store,
            RECORDED / "nvbench.json",
            overrides=ImportOverrides(commit=name, machine="gpu"),
            repository=tmp_path,
        )
        assert summary.set_aside == ()
    points = _points(sqlite_store, "simple.latency GV100")
    assert [point.commit.subject for point in points] == ["change 0", "change 1"]
    assert points[1].commit.hash == _git(tmp_path, "rev-parse", "HEAD")
    for name in ("v9", "v1\0", "v" * 200_000, "v\ud800"):
        with pytest.raises(NoResultsError, match="has no such commit"):
            _load(
                sqlite_store, RECORDED / "nvbench.json", overrides=ImportOverrides(commit=name)
            )  # the repository is remembered


def test_an_asv_import_of_the_same_project_leaves_other_formats_listed(store: Store, asv: AsvResults) -> None:
    """benchmarks.json lists asv's alone; what it lacks is gone only if it ever was asv's."""
    asv.benchmark(BENCH)
    asv.commit(1, {BENCH: asv.row([1.0]), "suite.Gone.time_it": asv.row([2.0])})
    _load(store, PYTEST)
    asv.load(store)
    listed = {series.benchmark: series.listed for series in _series(store)}
    assert listed[BENCH]
    assert listed["test_b.test_plain"]
    assert not listed["suite.Gone.time_it"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_another_formats_file_next_to_asvs_is_imported_too(
    sqlite_store: Store, asv: AsvResults, tmp_path: Path, is_packed: bool
) -> None:
    asv.benchmark(BENCH)
    asv.commit(1, {BENCH: asv.row([1.0])})
    (asv.folder / "pytest.json").write_bytes(PYTEST.read_bytes())
    (asv.folder / "package.json").write_text('{"name": "x"}')
    for number in range(2):
        summary = _load(sqlite_store, _tar(tmp_path / "a.tgz", asv.folder, "results") if is_packed else asv.folder)
        (line,) = summary.set_aside
        assert "package.json: " in line
        assert (summary.files, summary.points > 0) == (2, number == 0)
    listed = {series.benchmark: series.listed for series in _series(sqlite_store)}
    assert {BENCH, "test_b.test_plain"} <= set(listed)
    assert all(listed.values())


@pytest.mark.parametrize("lists", [True, False])
def test_folders_of_one_archive_leave_each_others_series_listed(
    sqlite_store: Store, tmp_path: Path, lists: bool
) -> None:
    """`lists`: whether each has a benchmarks.json; where one has none, no series counts as removed."""
    for number, name in enumerate(("one", "two")):
        asv = AsvResults(tmp_path / "all" / name / "results")
        if lists or name == "one":
            asv.benchmark(f"{name}.track_it")
            asv.benchmark("both.track_it", n=[name])
        rows = {"both.track_it": asv.row([1.0], [[name]]), f"{name}.track_it": asv.row([1.0])}
        asv.commit(number, {**rows, "gone.track_it": asv.row([1.0])})
    archive = _tar(tmp_path / "a.tgz", tmp_path / "all")
    for _ in range(2):  # of what is new in the second folder the first knows at the second import only
        _load(sqlite_store, archive)
    listed = {(series.benchmark, series.parameters): series.listed for series in _series(sqlite_store)}
    assert len(listed) == 5
    assert [name for (name, _), is_listed in listed.items() if not is_listed] == (["gone.track_it"] if lists else [])


@pytest.mark.parametrize("inside", [".", "results", "project/.asv/results"])
def test_an_archive_of_asv_results_is_like_the_folder(
    sqlite_store: Store, asv: AsvResults, tmp_path: Path, inside: str
) -> None:
    asv.benchmark(BENCH, unit="seconds")
    for number in range(3):
        asv.commit(number, {BENCH: asv.row([float(number)], started_at=number + 1)}, folder="gpu (T4) 1", machine="t4")
    archive = _tar(tmp_path / "a.bin", asv.folder, inside)
    assert _load(sqlite_store, archive).points == 3
    assert [point.value for point in _points(sqlite_store, "Bench")] == [0.0, 1.0, 2.0]
    assert [machine.name for machine in queries.machines(sqlite_store, "demo")] == ["t4"]
    again = _load(sqlite_store, archive, overrides=ImportOverrides(machine="another"))
    assert (again.points, again.set_aside) == (0, ())
    assert again.warnings == ("asv's results name commit, date and machine: the given ones are ignored",)
    assert _load(sqlite_store, asv.folder).points == 0


def test_an_archive_of_one_machines_folder_is_enough(sqlite_store: Store, asv: AsvResults, tmp_path: Path) -> None:
    path = asv.commit(1, {BENCH: asv.row([1.0])}, machine="t4")
    run = {"record": "run", "schema": 1, "run": "r1", "commit": hash_of(1), "started_at": "2026-01-01T00:00:00+00:00"}
    asv.context(path, run)
    summary = _load(sqlite_store, _tar(tmp_path / "t4.tgz", path.parent))
    assert (summary.points, summary.set_aside) == (1, ())
    assert [machine.name for machine in queries.machines(sqlite_store, "demo")] == ["t4"]


def test_a_single_asv_file_is_enough_too(sqlite_store: Store, asv: AsvResults) -> None:
    path = asv.commit(1, {BENCH: asv.row([1.0])}, machine="t4")
    assert _load(sqlite_store, path).points == 1
    assert [machine.name for machine in queries.machines(sqlite_store, "demo")] == ["t4"]


def test_an_archive_that_leads_to_no_machine_is_refused_in_a_sentence(
    sqlite_store: Store, asv: AsvResults, tmp_path: Path
) -> None:
    """Neither what the archive is called nor where it is unpacked is a machine."""
    named, nameless = (asv.commit(number, {BENCH: asv.row([1.0])}) for number in (1, 2))
    (named.parent / "machine.json").unlink()
    nameless.write_text(nameless.read_text().replace('"machine": "box", ', ""))
    archive = _tar(tmp_path / "a.tgz", named.parent)
    summary = _load(sqlite_store, archive)
    assert (summary.files, summary.points) == (1, 1)
    (line,) = summary.set_aside
    assert line.startswith(f"{archive}: {nameless.name}: neither it nor its folder names the machine")
    assert {series.machine for series in _series(sqlite_store)} == {"box"}
    assert _load(sqlite_store, _tar(tmp_path / "b.tgz", named.parent, "box")).points == 1
    assert {series.machine for series in _series(sqlite_store)} == {"box"}


@pytest.mark.parametrize("is_packed", [False, True])
def test_files_of_one_name_in_several_asv_folders_are_distinguished(
    sqlite_store: Store, tmp_path: Path, is_packed: bool
) -> None:
    for folder in ("first", "second"):
        results = AsvResults(tmp_path / "all" / folder)
        results.benchmark(f"{folder}.Bench.time_it")
        for number in range(2):
            results.commit(number, {f"{folder}.Bench.time_it": results.row([1.0])})
    path = _tar(tmp_path / "a.tgz", tmp_path / "all") if is_packed else tmp_path / "all"
    assert _load(sqlite_store, path).points == 4
    again = _load(sqlite_store, path)
    assert (again.points, again.unchanged, again.files) == (0, 4, 4)


def test_paths_in_the_configuration_of_an_archive_are_not_followed(
    sqlite_store: Store, asv: AsvResults, tmp_path: Path, repository_of_others: Path
) -> None:
    """Its asv.conf.json may name a folder of the server as its results, or as a repository that git then runs in."""
    asv.commit(1, {BENCH: asv.row([1.0])})
    (asv.folder / "asv.conf.json").write_text(
        json.dumps({"project": "evil", "repo": str(repository_of_others), "results_dir": str(tmp_path / "private")})
    )
    private = AsvResults(tmp_path / "private")
    private.commit(2, {"secret.time_it": private.row([1.0])})
    summary = _load(sqlite_store, _tar(tmp_path / "a.tar.gz", asv.folder))
    assert summary.project == "demo"
    assert [series.benchmark for series in _series(sqlite_store)] == [BENCH]
    (project,) = queries.projects(sqlite_store)
    assert project.repository is None


@pytest.fixture
def repository_of_others(tmp_path: Path) -> Path:
    """A repository on the server."""
    folder = tmp_path / "others"
    folder.mkdir()
    _git(folder, "init", "-q")
    return folder


def test_a_skipped_member_of_an_archive_is_reported_by_its_name_there(sqlite_store: Store, tmp_path: Path) -> None:
    archive = tmp_path / "mixed.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.write(PYTEST, "deep/out.json")
        opened.writestr("deep/notes.txt", "measured on a Tuesday")
        opened.writestr("../../evil.json", "{}")
    summary = _load(sqlite_store, archive)
    assert summary.files == 1
    assert [line.rpartition(": ")[0].split(": no result")[0] for line in summary.set_aside] == [
        f"{archive}: deep/notes.txt",
        f"{archive}: ../../evil.json",
    ]
    assert not (tmp_path.parent / "evil.json").exists()


def test_a_bomb_adds_nothing(sqlite_store: Store, asv: AsvResults, tmp_path: Path) -> None:
    asv.commit(1, {BENCH: asv.row([1.0])})
    (asv.folder / "zeros").write_bytes(bytes(2_000_000))
    with pytest.raises(ArchiveTooLargeError, match="more than 1 MiB"):
        _load(sqlite_store, _tar(tmp_path / "a.tar.gz", asv.folder), limits=ImportLimits(archive_bytes=2**20))
    assert queries.projects(sqlite_store) == ()


def test_a_path_without_results_is_refused_with_a_reason(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, said in ((tmp_path / "nowhere", "does not exist"), (tmp_path / "empty", "has no readable result")):
        with pytest.raises(NoResultsError, match=said):
            _load(sqlite_store, path)


def test_two_imports_at_once_add_everything_once(database: str, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    for number in range(20):
        _pytest_file(folder, number, float(number + 1))
    stores = [Store(database), Store(database)]
    start = threading.Barrier(2)
    added: list[int] = []

    def run(store: Store) -> None:
        start.wait(timeout=60)
        added.append(import_path(store, folder, project="demo").points)

    threads = [threading.Thread(target=run, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert sum(added) == 20
    analyse(stores[0])
    assert [point.value for point in _points(stores[0], "test_plain")] == [float(n + 1) for n in range(20)]
    for store in stores:
        store.close()


def test_names_that_a_database_refuses_cost_themselves_alone(store: Store, tmp_path: Path) -> None:
    data = recorded("google_benchmark.json")
    data["benchmarks"][0] |= {"name": "a\0b", "run_name": "a\0b"}
    data["benchmarks"][1] |= {"error_message": "half a \ud800 character and a \0"}
    data["context"]["host_name"] = "box"
    path = tmp_path / "out.json"
    path.write_text(json.dumps(data))
    summary = _load(store, path, overrides=GIVEN)
    assert any("cannot be stored" in line for line in summary.warnings)
    assert _points(store, "skipped")[0].reason == "'half a \\ud800 character and a \\x00'"
    data["context"]["host_name"] = "b\0x"
    path.write_text(json.dumps(data))
    (line,) = _load(store, path, overrides=GIVEN).set_aside
    assert "cannot be stored" in line


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "name", ["box/machine.json", "box/0101-env.context.jsonl", "benchmarks.json", "box/odd.json", "other.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_in_a_folder_is_not_waited_for(
    name: str, kind: str, sqlite_store: Store, asv: AsvResults
) -> None:
    asv.commit(1, {"suite.time_it": asv.row([1.0])})
    (result,) = [path for path in (asv.folder / "box").glob("*.json") if path.name != "machine.json"]
    path = asv.folder / name.replace("0101-env", result.stem)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    summary = import_path(sqlite_store, asv.folder, project="demo")
    if "context" in name:
        assert "is not a regular file" in summary.set_aside[0]
    else:
        assert summary.points == 1
