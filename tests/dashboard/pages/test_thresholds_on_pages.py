"""Pages judge by the limits that the project states, and say whose they are."""

import html
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient

from tests.asv_results import AsvResults
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.cli.export import export
from warpwatch.dashboard.model.thresholds import StatedLimits
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import state_limits
from warpwatch.dashboard.web.app import create_app

BENCH, OTHER = "suite.Bench.track_latency", "suite.Other.track_latency"
STEP = 18
SLOWER = {BENCH: 1.06, OTHER: 1.3}
NAME = "<code>warpwatch.toml</code> of aaaaaaaa"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two series that one commit made slower: one by less than its limit, and the other by more."""
    folder = tmp_path_factory.mktemp("limits")
    opened = Store(f"sqlite:///{folder / 'history.db'}")
    asv = AsvResults(folder / "results")
    for name in SLOWER:
        asv.benchmark(name)
    for number in range(24):
        level = 100e-6 * (1 + number % 3 / 1000)
        asv.commit(
            number,
            {
                name: asv.row([level * (slower if number >= STEP else 1)], started_at=number + 1, spread=0.002)
                for name, slower in SLOWER.items()
            },
        )
    asv.load(opened)
    analyse(opened)
    stated = {
        "threshold": 0.03,
        "rules": [{"benchmark": "*.Bench.*", "threshold": 0.125}],
        "source": "warpwatch.toml",
        "commit": "a" * 40,
        "committed": datetime(2026, 1, 1, tzinfo=UTC),
    }
    state_limits(opened, "demo", StatedLimits.model_validate(stated), now_ms=1_800_000_000_000)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(store: Store) -> FlaskClient:
    return create_app(Settings(database=str(store.url))).test_client()


def _page(client: FlaskClient, address: str) -> str:
    answer = client.get(f"/demo/{address}", follow_redirects=True)
    assert answer.status_code == 200
    return " ".join(
        re.sub(r'<span title="[^"]*">(<code>[^<]*</code>[^<]*)</span>', r"\1", html.unescape(answer.text)).split()
    )


def _key(store: Store, name: str) -> str:
    return next(one.key for one in queries.find_series(store, "demo", search=name).series)


def _around(store: Store) -> str:
    commits = queries.commits(store, "demo")[::-1]
    return f"base={commits[STEP - 1].hash}&head={commits[STEP].hash}"


def test_a_comparison_names_the_file_and_the_limit_of_each_row_that_has_its_own(
    store: Store, client: FlaskClient
) -> None:
    page = _page(client, f"compare?{_around(store)}&show=all")
    assert f"Threshold: 3 %, unless {NAME} has another" in page
    assert page.count("counts from 12.5 %") == 1
    row = page.split("counts from 12.5 %")[0].rpartition("<tr>")[2]
    assert "Bench" in row
    assert "Unchanged" in row


def test_a_series_shows_its_threshold_and_which_of_its_steps_lie_below(store: Store, client: FlaskClient) -> None:
    page = _page(client, f"series/{_key(store, 'Bench')}")
    assert f"threshold 12.5 %, by {NAME}" in page
    assert page.count("below 12.5 %") == 1
    assert '"name":"below the threshold"' in page
    assert '"name":"regression"' not in page
    other = _page(client, f"series/{_key(store, 'Other')}")
    assert f"threshold 3 %, by {NAME}" in other
    assert '"name":"regression"' in other
    assert "below" not in other.split("Changepoints")[1].split("</section>")[0]
    data = client.get(f"/api/projects/demo/series/{_key(store, 'Bench')}/history").get_json()
    assert [change["below_limit"] for change in data["changes"]] == [0.125]


def test_regressions_leave_out_what_does_not_count_and_say_so(store: Store, client: FlaskClient) -> None:
    page = _page(client, "regressions?state=all")
    assert _key(store, "Other") in page
    assert _key(store, "Bench") not in page
    assert f"Thresholds: {NAME}. 1 smaller regression is not listed here, only on the pages of its series." in page
    body = client.get("/api/projects/demo/regressions").get_json()
    assert [each["series"]["benchmark"] for each in body["items"]] == [OTHER]
    assert body["limits"]["commit"] == "a" * 40


def test_a_commit_marks_the_steps_that_do_not_count(store: Store, client: FlaskClient) -> None:
    commit = queries.commits(store, "demo")[::-1][STEP].hash
    page = _page(client, f"commit/{commit}")
    assert page.count("below 12.5 %") == 1
    assert f"thresholds: {NAME}" in page
    body = client.get(f"/api/projects/demo/commits/{commit}").get_json()
    assert {each["series"]["benchmark"]: each["change"]["below_limit"] for each in body["changes"]} == {
        BENCH: 0.125,
        OTHER: None,
    }
    history = client.get(f"/api/projects/demo/series/{_key(store, 'Bench')}/history").get_json()
    assert [each["below_limit"] for each in history["changes"]] == [0.125]
    assert history["limits"]["source"] == "warpwatch.toml"


def test_a_machine_is_trusted_by_the_projects_threshold(store: Store, client: FlaskClient) -> None:
    (machine,) = queries.machines(store, "demo")
    assert "threshold (3 % or the project’s rules)" in _page(client, f"machines/{machine.name}")


def test_a_badge_is_no_alarm_for_what_does_not_count(store: Store, client: FlaskClient) -> None:
    assert "unchanged" in _page(client, f"badge/verdict/{_key(store, 'Bench')}.svg")
    assert "regressed" in _page(client, f"badge/verdict/{_key(store, 'Other')}.svg")
    assert "regressed 1 of 2" in _page(client, "badge/verdict.svg")


def test_an_exported_site_judges_alike(store: Store, tmp_path: Path) -> None:
    done = CliRunner().invoke(export, ["--site", str(tmp_path / "site"), "--database", str(store.url)])
    assert done.exit_code == 0, done.output
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert any("below 12.5 %" in page for page in pages)
    (limits,) = (tmp_path / "site").rglob("limits.json")
    assert json.loads(limits.read_text())["stated"]["commit"] == "a" * 40
