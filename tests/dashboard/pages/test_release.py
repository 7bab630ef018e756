"""The release report as a page, as Markdown, as JSON and by the command."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.asv_results import AsvResults, hash_of
from tests.commands import run_command
from warpwatch.dashboard.analysis.compare_sides import compare_commits
from warpwatch.dashboard.analysis.release_report import ReleaseReport, release_report
from warpwatch.dashboard.model.thresholds import LimitRule, StatedLimits
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.notes import Release, replace_releases
from warpwatch.dashboard.store.policy import state_limits
from warpwatch.dashboard.web.app import create_app


@pytest.fixture(scope="module")
def store(history_store: Settings) -> Iterator[Store]:
    store = Store(history_store.database)
    yield store
    store.close()


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    app: Flask = create_app(history_store)
    return app.test_client()


def report_of(store: Store) -> ReleaseReport:
    newest, *_, oldest = queries.commits(store, "kernels")
    return release_report(store, "kernels", oldest, newest, threshold=0.02)


def test_a_kernels_mean_and_counts_are_those_of_the_comparisons_rows(store: Store) -> None:
    newest, *_, oldest = queries.commits(store, "kernels")
    rows = compare_commits(store, "kernels", oldest, newest, threshold=0.02).rows
    report = report_of(store)
    assert report.kernels
    for kernel in report.kernels:
        mine = [
            row
            for row in rows
            if (row.series.machine, row.kernel, row.series.metric) == (kernel.machine, kernel.kernel, "latency")
            and row.series.implementation == "warpwatch"
        ]
        assert kernel.workloads == sum(row.base is not None and row.head is not None for row in mine)
        assert kernel.workloads == kernel.faster + kernel.slower + kernel.unchanged + kernel.inconclusive
        logs = [math.log1p(row.estimate.change) for row in mine if row.estimate]
        if logs:
            assert kernel.change is not None
            assert math.log1p(kernel.change) == pytest.approx(sum(logs) / len(logs))
    for machine in report.machines:
        kernels = [each for each in report.kernels if each.machine == machine.machine]
        assert machine.workloads == sum(each.workloads for each in kernels)
        assert machine.faster == sum(each.faster for each in kernels)


def test_a_kernel_that_the_policy_leaves_out_of_means_does_not_move_the_machines(own: Settings) -> None:
    store = Store(own.database)
    left_out = report_of(store).kernels[0].kernel
    stated = StatedLimits(
        source="warpwatch.toml",
        committed=datetime(2030, 1, 1, tzinfo=UTC),
        rules=(LimitRule(kernel=(left_out or "",), in_means=False),),
    )
    assert state_limits(store, "kernels", stated, now_ms=2**42)
    report = report_of(store)
    store.close()
    assert {each.kernel for each in report.kernels if not each.in_means} == {left_out}
    for machine in report.machines:
        assert machine.workloads == sum(
            each.workloads for each in report.kernels if each.machine == machine.machine and each.in_means
        )


def test_page_markdown_json_and_csv_show_the_same_kernels(store: Store, client: FlaskClient) -> None:
    report = report_of(store)
    sides = {"base": report.base.hash, "head": report.head.hash}
    page = client.get("/kernels/release", query_string=sides)
    markdown = client.get("/kernels/release", query_string={**sides, "format": "markdown"})
    found = client.get("/api/projects/kernels/release", query_string=sides)
    table = client.get("/api/projects/kernels/release", query_string={**sides, "format": "csv"})
    assert [answer.status_code for answer in (page, markdown, found, table)] == [200] * 4
    assert markdown.mimetype == "text/markdown"
    assert ReleaseReport.model_validate(found.get_json()).kernels == report.kernels
    assert table.text.count("\r\n") == len(report.kernels) + 1
    for kernel in report.kernels:
        assert str(kernel.kernel) in page.text
        assert f"`{kernel.kernel}`" in markdown.text


def test_the_base_is_the_newest_tag_by_default(own: Settings) -> None:
    store = Store(own.database)
    commits = queries.commits(store, "kernels")
    old, new = commits[-2], commits[2]
    tags = [
        Release(commit=commit.hash, name=name, date_ms=round(commit.date.timestamp() * 1000))
        for commit, name in ((old, "v1.0"), (new, "v1.1"))
    ]
    replace_releases(store, "kernels", tags)
    store.close()
    client = create_app(own).test_client()
    page = client.get("/kernels/release").text
    assert "<b>v1.1</b>" in page
    assert new.hash[:8] in page
    assert 'value="v1.0"' in page
    assert "<b>v1.0</b>" in client.get("/kernels/release", query_string={"head": new.hash}).text


def test_a_commit_of_some_benchmarks_only_is_not_the_default(tmp_path: Path) -> None:
    store = _with_partial_commits(tmp_path, partial=[3], commits=4)
    complete = queries.newest_measured(store, "demo", ())
    assert complete is not None
    assert complete.hash == hash_of(2)
    assert queries.newest_of_machines(store, "demo", "box", "box") == (complete, complete)
    asked = _compared_by_default(store)
    assert (asked["base"], asked["head"]) == (hash_of(1), hash_of(2))
    page = _client(store).get("/demo/release").text
    assert f"/demo/commit/{hash_of(2)}" in page
    assert f"/demo/commit/{hash_of(3)}" not in page
    store.close()


def test_a_commit_is_compared_with_the_complete_one_before_it(tmp_path: Path) -> None:
    store = _with_partial_commits(tmp_path, partial=[3], commits=5)
    before = {number: _before(store, hash_of(number)) for number in range(5)}
    assert before == {0: None, 1: hash_of(0), 2: hash_of(1), 3: hash_of(2), 4: hash_of(2)}
    asked = _compared_by_default(store)
    assert (asked["base"], asked["head"]) == (hash_of(2), hash_of(4))
    page = _client(store).get(f"/demo/commit/{hash_of(4)}").text
    assert f"/demo/commit/{hash_of(2)}" in page
    assert "missing" not in page
    store.close()


def test_commits_of_an_earlier_smaller_suite_do_not_count(tmp_path: Path) -> None:
    store = _with_partial_commits(tmp_path, partial=[*range(12), 20], commits=22)
    assert _before(store, hash_of(21)) == hash_of(19)
    assert _before(store, hash_of(20)) == hash_of(19)
    assert _before(store, hash_of(11)) == hash_of(10)
    store.close()


def _with_partial_commits(folder: Path, *, partial: Sequence[int], commits: int) -> Store:
    asv, store = AsvResults(folder / "results"), Store(str(folder / "history.db"))
    cases = [str(number) for number in range(10)]
    asv.benchmark("suite.time_it", case=cases)
    for number in range(commits):
        some = cases[:1] if number in partial else cases
        asv.commit(number, {"suite.time_it": asv.row([1.0 for _ in some], [some])})
    asv.load(store)
    return store


def _before(store: Store, commit: str) -> str | None:
    (run,) = queries.measured_on(store, "demo", commit)
    return run.before.hash if run.before is not None else None


def _client(store: Store) -> FlaskClient:
    return create_app(Settings(database=str(store.sqlite_file))).test_client()


def _compared_by_default(store: Store) -> Mapping[str, str]:
    return _client(store).get("/demo/compare", follow_redirects=True).request.args


def test_an_unknown_commit_is_named(client: FlaskClient) -> None:
    answer = client.get("/kernels/release", query_string={"base": "no-such-tag"})
    assert answer.status_code == 404
    assert "no-such-tag" in answer.text


def test_the_command_prints_the_pages_markdown(
    history_store: Settings, store: Store, client: FlaskClient, tmp_path: Path
) -> None:
    report = report_of(store)
    sides = {"base": report.base.hash, "head": report.head.hash}
    page = client.get("/kernels/release", query_string={**sides, "format": "markdown"}).text
    done = run_command(
        *("report", "--project", "kernels", "--since", report.base.hash, "--until", report.head.hash),
        *("--database", history_store.database),
        folder=tmp_path,
    )
    assert done.stdout.strip() == page.strip()
