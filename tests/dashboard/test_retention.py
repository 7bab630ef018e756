"""What a policy lets go is gone, and nothing else; on both databases."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import delete, func, select, update

from tests.stored import stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.cli.compact import retention
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.points import read_points, read_samples
from warpwatch.dashboard.store.retention import RetentionPolicy, compact, drop_project, reclaim

COMMITS = 60
A_DAY = 24  # commits: one an hour
BENCH, GONE = "suite.Bench.track_latency", "suite.Gone.track_latency"


@pytest.fixture
def history(store: Store, asv: Any) -> Store:
    """Sixty hourly commits of a benchmark that gets slower at the twentieth, and ten of one that is listed no more."""
    asv.benchmark(BENCH)
    for number in range(COMMITS):
        value = (1.3 if number >= 20 else 1.0) + number % 3 / 1000
        rows = {BENCH: asv.row([value], started_at=number + 1, spread=0.01, samples=[[value, value * 1.01]])}
        if number < 10:
            rows[GONE] = asv.row([2.0 + number / 1000], started_at=number + 1, spread=0.01)
        asv.commit(number, rows)
        if number % 20 == 19:
            asv.load(store)
    return store


def _values(store: Store, search: str) -> list[float | None]:
    found = queries.find_series(store, "demo", search=search)
    if not found.total:
        return []
    history = stored_history(store, found.series[0].key)
    assert history is not None
    return [point.value for point in history.points]


def _commits(store: Store) -> list[str]:
    history = stored_history(store, queries.find_series(store, "demo", search="Bench").series[0].key)
    assert history is not None
    return [point.commit.hash for point in history.points]


def _samples(store: Store) -> int:
    with store.read() as connection:
        ids = connection.execute(select(schema.series.c.id)).scalars().all()
        return sum(len(each.samples) for each in read_samples(connection, ids).values())


def test_without_a_policy_stretches_are_joined_and_nothing_is_lost(history: Store) -> None:
    before, samples = _values(history, "Bench"), _samples(history)
    done = compact(history, "demo", RetentionPolicy())
    assert (done.points_removed, done.samples_removed, done.series_removed) == (0, 0, 0)
    assert done.chunks_joined > 0
    assert (_values(history, "Bench"), _samples(history)) == (before, samples)
    with history.read() as connection:
        counts = select(func.count()).select_from(schema.chunk).group_by(schema.chunk.c.series_id)
        assert set(connection.execute(counts).scalars()) == {1}
    assert compact(history, "demo", RetentionPolicy()).chunks_joined == 0


def test_old_samples_go_and_their_values_stay(history: Store) -> None:
    before = _values(history, "Bench")
    done = compact(history, "demo", RetentionPolicy(samples_days=1))
    assert done.samples_removed == 2 * (COMMITS - A_DAY - 1)
    assert _samples(history) == 2 * (A_DAY + 1)
    assert _values(history, "Bench") == before


def test_old_commits_are_thinned_but_for_those_around_a_change(history: Store) -> None:
    found = queries.find_series(history, "demo", search="Bench").series[0]
    before = stored_history(history, found.key)
    assert before is not None
    change = before.changes[0]
    compact(history, "demo", RetentionPolicy(thin_after_days=1, thin_every=3))
    analyse(history)
    after = stored_history(history, found.key)
    assert after is not None
    kept = [point.commit.position for point in after.points]
    old = COMMITS - A_DAY - 1
    around = {change.commit.position, change.previous_commit.position}
    assert {*range(old, COMMITS), *around} <= set(kept)
    thinned = {*kept} - {*range(old, COMMITS), *around}
    assert old // 3 - 3 <= len(thinned) <= old // 3 + 1
    assert [one.commit for one in after.changes] == [change.commit]
    assert _samples(history) == 2 * len(kept)


def test_the_command_looks_for_changes_before_it_thins(history: Store, database: str, tmp_path: Path) -> None:
    """A new schema may leave every series stale and without changepoints."""
    found = queries.find_series(history, "demo", search="Bench").series[0]
    before = stored_history(history, found.key)
    assert before is not None
    change = before.changes[0]
    with history.write("demo") as connection:
        connection.execute(delete(schema.changepoint))
        connection.execute(update(schema.series).values(stale=True))
    policy = tmp_path / "policy.toml"
    policy.write_text("thin_after_days = 1\nthin_every = 50\n")
    done = CliRunner().invoke(retention, [str(policy), "--database", database])
    assert done.exit_code == 0, done.output
    assert {change.commit.hash, change.previous_commit.hash} <= set(_commits(history))


def test_an_older_commit_measured_later_thins_nothing_again(history: Store, asv: Any) -> None:
    policy = RetentionPolicy(thin_after_days=1, thin_every=3)
    compact(history, "demo", policy)
    analyse(history)
    before = _commits(history)
    asv.commit(-5, {BENCH: asv.row([1.0], started_at=100, spread=0.01)}, commit="f" * 40)
    assert asv.load(history).points == 1
    compact(history, "demo", policy)
    assert [each for each in _commits(history) if each != "f" * 40] == before


def test_series_that_are_listed_no_more_go_when_they_are_old(history: Store) -> None:
    assert compact(history, "demo", RetentionPolicy(unlisted_days=30)).series_removed == 0
    done = compact(history, "demo", RetentionPolicy(unlisted_days=1))
    assert (done.series_removed, done.points_removed) == (1, 10)
    assert _values(history, "Gone") == []
    assert len(_values(history, "Bench")) == COMMITS


def test_a_dry_run_lists_what_would_be_deleted_and_changes_nothing(history: Store) -> None:
    before, samples = _values(history, "Bench"), _samples(history)
    policy = RetentionPolicy(samples_days=1, thin_after_days=1, thin_every=5, unlisted_days=1)
    planned = compact(history, "demo", policy, dry_run=True)
    assert (_values(history, "Bench"), _samples(history), len(_values(history, "Gone"))) == (before, samples, 10)
    assert compact(history, "demo", policy) == planned


def test_what_was_thinned_does_not_come_back_with_the_next_import(history: Store, asv: Any) -> None:
    compact(history, "demo", RetentionPolicy(thin_after_days=1, thin_every=5, samples_days=1))
    kept = _values(history, "Bench")
    for file in Path(asv.folder).glob("box/0*.json"):
        file.write_text(file.read_text() + " ")
    assert asv.load(history).points == 0
    assert _values(history, "Bench") == kept


def test_a_project_is_dropped_whole_and_alone(history: Store, asv: Any) -> None:
    asv.load(history, project="other")
    drop_project(history, "demo")
    reclaim(history)
    assert [project.name for project in queries.projects(history)] == ["other"]
    with history.read() as connection:
        owned = connection.execute(select(schema.series.c.id)).scalars().all()
        assert sum(len(each) for each in read_points(connection, owned).values()) == COMMITS + 10
        assert set(connection.execute(select(schema.chunk.c.series_id)).scalars()) <= set(owned)


@pytest.mark.parametrize("wrong", [{"samples_days": -1}, {"thin_every": 1}, {"unlisted_days": "30"}])
def test_a_policy_of_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RetentionPolicy(**wrong)
