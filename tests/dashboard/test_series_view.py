"""What the store hands to a series' page: of a short history all, of a long one what shows, from everything."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.asv_results import START_MS, AsvResults, hash_of
from tests.stored import stored_history
from warpwatch.dashboard.model.history import MarkKind
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.notes import RELEASES, add_annotation, annotations
from warpwatch.dashboard.store.queries import HistoryRequest

LONG = 400


def _values() -> list[float]:
    return [(1.0 if number < 250 else 1.2) * (1 + 0.001 * ((number * 7919) % 11 - 5)) for number in range(LONG)]


def _key(store: Store) -> str:
    return queries.find_series(store, "demo").series[0].key


def test_a_short_history_comes_as_it_is(store: Store, timed_history: Callable[..., AsvResults]) -> None:
    timed_history(_values()[230:270]).load(store)
    key = _key(store)
    whole, shown = stored_history(store, key), queries.shown_history(store, key, HistoryRequest())
    assert whole is not None
    assert shown is not None
    assert shown.history == whole
    assert not shown.extent.is_thinned
    assert shown.newest == whole.points[-1]
    assert [point.commit.hash for point in shown.listed] == [hash_of(n) for n in range(39, 19, -1)]
    assert queries.shown_history(store, "0" * 16, HistoryRequest()) is None


def test_a_long_one_keeps_its_extremes_its_changes_and_its_levels(
    store: Store, timed_history: Callable[..., AsvResults]
) -> None:
    values = _values()
    values[77] = 1.3
    timed_history(values).load(store)
    shown = queries.shown_history(store, _key(store), HistoryRequest(most=60))
    assert shown is not None
    assert (shown.extent.points, shown.extent.drawn) == (LONG, len(shown.history.points))
    assert len(shown.history.points) < 120
    drawn = {point.commit.hash for point in shown.history.points}
    assert {hash_of(0), hash_of(77), hash_of(250), hash_of(LONG - 1)} <= drawn
    (change,) = shown.history.changes
    assert change.commit.hash == hash_of(250)
    first, second = shown.levels
    assert (first.first.hash, first.last.hash, second.last.hash) == (hash_of(0), hash_of(249), hash_of(LONG - 1))
    assert (first.value, second.value) == (median(values[:250]), median(values[250:]))


def test_what_is_looked_at_closely_is_drawn_whole(store: Store, timed_history: Callable[..., AsvResults]) -> None:
    timed_history(_values()).load(store)
    wanted = HistoryRequest(most=60, first=hash_of(100)[:8], last=hash_of(130)[:8])
    shown = queries.shown_history(store, _key(store), wanted)
    assert shown is not None
    assert (shown.extent.points_inside, shown.extent.drawn_inside) == (31, 31)
    assert [point.commit.hash for point in shown.points_inside] == [hash_of(n) for n in range(100, 131)]
    assert shown.extent.is_thinned
    assert shown.window is not None
    assert shown.window[0].hash == hash_of(100)


def test_unmeasured_points_are_counted_and_the_newest_named(store: Store, asv: AsvResults) -> None:
    asv.benchmark("suite.Bench.time_it")
    for number in range(15):
        asv.commit(number, {"suite.Bench.time_it": asv.row([1.0] if number < 3 else None, started_at=number + 1)})
    asv.load(store)
    shown = queries.shown_history(store, _key(store), HistoryRequest())
    assert shown is not None
    assert (shown.points_without_number, len(shown.without_number)) == (12, 10)
    assert shown.newest_number is not None
    assert shown.newest_number.commit.hash == hash_of(2)
    assert {point.status for point in shown.without_number} == {Status.FAILED}


def test_another_driver_or_library_is_marked_where_it_came_in(store: Store, asv: AsvResults) -> None:
    name = "benchmarks.rope.Rope.track_latency"
    asv.benchmark(name, workload=["'w'"], implementation=["'warpwatch'"])
    for number in range(6):
        path = asv.commit(number, {name: asv.row([1.0], [["'w'"], ["'warpwatch'"]], started_at=number + 1)})
        run = f"{number:032x}"
        asv.context(
            path,
            {
                "record": "run",
                "schema": 1,
                "run": run,
                "commit": hash_of(number),
                "environment": "env-py3.11",
                "started_at": "2026-01-01T00:00:00+00:00",
                "gpu": {"uuid": "GPU-b" if number > 4 else "GPU-a", "driver": "580" if number > 1 else "550"},
                "software": {"torch": "2.13" if number > 1 else "2.12"},
            },
            {
                "record": "workload",
                "run": run,
                "benchmark": "benchmarks.rope.Rope",
                "operator": "rope",
                "workload": "w",
                "parameters": {},
                "dtype": "fp16",
                "flops": 1.0,
                "bytes": 1.0,
                "kernels": ["warpwatch"],
                "baselines": [],
            },
            {
                "record": "measurement",
                "run": run,
                "benchmark": "benchmarks.rope.Rope",
                "workload": "w",
                "implementation": "warpwatch",
                "status": "ok",
                "reason": None,
                "latency_s": 1.0,
                "sample_count": 1,
            },
        )
    asv.load(store)
    for _ in range(2):  # what the process remembers of the runs answers the second time
        shown = queries.shown_history(store, _key(store), HistoryRequest())
        assert shown is not None
        assert [(mark.commit.hash, mark.kind, mark.text) for mark in shown.marks] == [
            (hash_of(2), MarkKind.MACHINE, "driver 550 → 580, PyTorch 2.12 → 2.13"),
            (hash_of(5), MarkKind.MACHINE, "card GPU-b"),
        ]
    assert shown.gpus == 2


def test_notes_of_people_stand_at_their_commits(store: Store, timed_history: Callable[..., AsvResults]) -> None:
    timed_history([1.0, 2.0, 3.0]).load(store)
    add_annotation(store, "demo", hash_of(1), author="Ada", text="a <b>fan</b> failed", now_ms=1)
    shown = queries.shown_history(store, _key(store), HistoryRequest())
    assert shown is not None
    (mark,) = shown.marks
    assert (mark.commit.hash, mark.kind, mark.text, mark.author) == (
        hash_of(1),
        MarkKind.NOTE,
        "a <b>fan</b> failed",
        "Ada",
    )


def test_tags_are_releases_at_the_first_measured_commit_and_follow_the_repository(
    store: Store, asv: AsvResults, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", *who, "-C", str(repository), *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    repository.mkdir()
    git("init", "-q", "-b", "main")
    hashes = []
    for number in range(5):
        git("commit", "-q", "--allow-empty", "-m", f"commit {number}")
        hashes.append(git("rev-parse", "HEAD"))
    git("tag", "v1.0", hashes[1])
    git("tag", "-a", "v2.0", "-m", "annotated", hashes[2])
    git("tag", "v9", hashes[4])  # after all that was measured
    asv.benchmark("suite.Bench.time_it")
    for number in (0, 2, 3):
        row = asv.row([1.0], started_at=START_MS + number)
        asv.commit(number, {"suite.Bench.time_it": row}, commit=hashes[number])
    asv.load(store, repository=repository)
    shown = queries.shown_history(store, _key(store), HistoryRequest())
    assert shown is not None
    assert [(m.commit.hash, m.kind, m.text) for m in shown.marks] == [
        (hashes[2], MarkKind.RELEASE, "v1.0"),
        (hashes[2], MarkKind.RELEASE, "v2.0"),
    ]
    add_annotation(store, "demo", hashes[2], author="Ada", text="mine", now_ms=1)
    git("tag", "-d", "v1.0")
    asv.load(store, repository=repository)
    kept = {(note.author, note.text) for note in annotations(store, "demo")}
    assert kept == {(RELEASES, "v2.0"), ("Ada", "mine")}


def test_a_point_is_compared_with_the_one_before(store: Store, asv: AsvResults) -> None:
    asv.benchmark("suite.Bench.time_it")
    for number, samples in enumerate([[1.0, 1.1, 0.9], [2.0, 2.2, 1.8], None, [4.0, 4.1, 3.9]]):
        values: Any = [samples[0]] if samples else None
        asv.commit(
            number,
            {"suite.Bench.time_it": asv.row(values, started_at=number + 1, samples=[samples] if samples else None)},
        )
    asv.load(store)
    facts = queries.point_facts(store, _key(store))
    assert facts is not None
    assert facts.before is not None
    assert (facts.point.commit.hash, facts.before.commit.hash) == (hash_of(3), hash_of(1))
    assert (facts.samples, facts.samples_before) == ((3.9, 4.0, 4.1), (1.8, 2.0, 2.2))
    assert (facts.newer, facts.older is not None) == (None, True)
    failed = queries.point_facts(store, _key(store), facts.older)
    assert failed is not None
    assert (failed.point.value, failed.newer) == (None, facts.point.run)
    assert queries.point_facts(store, _key(store), "nonsense") is None


def test_series_of_the_project_are_overlaid_and_others_are_not(store: Store, asv: AsvResults) -> None:
    for name in ("suite.Bench.time_it", "suite.Other.time_it"):
        asv.benchmark(name)
    asv.commit(0, {"suite.Bench.time_it": asv.row([1.0]), "suite.Other.time_it": asv.row([2.0])})
    asv.commit(1, {"suite.Other.time_it": asv.row([3.0])})
    asv.load(store)
    own, other = (queries.find_series(store, "demo", search=word).series[0].key for word in ("Bench", "Other"))
    shown = queries.shown_history(store, own, HistoryRequest(overlays=[other, own, "f" * 16, other]))
    assert shown is not None
    (overlay,) = shown.added
    assert overlay.series.key == other
    assert [shown.positions[point.commit.hash].measured for point in overlay.points] == [0, 1]
