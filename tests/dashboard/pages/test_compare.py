"""What the compare page says, read without a browser."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.browsing import HOSTILE
from tests.dashboard.pages.recorded import write_recorded
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.compare_sides import compare_implementations
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text import comparison_report
from warpwatch.dashboard.web.app import create_app

THRESHOLD = 0.02


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


@pytest.fixture(scope="module")
def store(history_store: Settings) -> Iterator[Store]:
    opened = Store(history_store.database)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def judged(store: Store) -> Comparison:
    """The oldest commits' end against the newest: rope was made faster and decode attention slower meanwhile."""
    commits = queries.commits(store, "kernels")
    return check(store, "kernels", commits[-2], commits[1], threshold=THRESHOLD)


def _page(client: FlaskClient, judged: Comparison, more: str = "") -> str:
    answer = client.get(f"/kernels/compare?base={judged.base.hash}&head={judged.head.hash}{more}")
    assert answer.status_code == 200
    return answer.text


def _verdicts(page: str) -> dict[str, int]:
    """The chips: every verdict with its count."""
    chips = page.split('aria-label="Verdicts"')[1].split("</form>")[0]
    words = re.findall(r"</svg>([^<]+)</span>\s*<b>([\d,]+)</b>", chips)
    return {word: int(number.replace(",", "")) for word, number in words}


def _rows(page: str) -> int:
    """On all pages of the list."""
    (number,) = re.findall(r"([\d,]+) rows? shown", page)
    return int(number.replace(",", ""))


def _keys(client: FlaskClient, judged: Comparison, more: str) -> set[str]:
    """The series of the rows, on all pages of the list."""
    pages = [_page(client, judged, f"{more}&page={number}") for number in (1, 2)]
    return {key for page in pages for key in re.findall(r"compare/row\?series=([0-9a-f]{16})", page)}


def test_the_page_counts_what_check_prints_and_hides_what_did_not_change(
    client: FlaskClient, judged: Comparison
) -> None:
    page = _page(client, judged)
    counts = json.loads(comparison_report.as_json(judged))["counts"]
    words = {
        "regressed": "Regressed",
        "improved": "Improved",
        "unchanged": "Unchanged",
        "inconclusive": "Inconclusive",
        "invalid": "Invalid",
        "missing": "Missing",
    }
    assert _verdicts(page) == {words[name]: number for name, number in counts.items() if number}
    assert counts["improved"] > 0
    quiet = counts["unchanged"] + counts["missing"]
    assert _rows(page) == len(judged.rows) - quiet
    if quiet:
        assert "hidden:" in page
        assert _rows(_page(client, judged, "&show=all")) == len(judged.rows)


def test_each_row_says_verdict_levels_change_interval_and_noise(client: FlaskClient, judged: Comparison) -> None:
    row = next(row for row in judged.rows if row.verdict is Verdict.IMPROVED and row.series.metric_record.is_latency)
    page = _page(client, judged, "&show=all")
    row_html = next(part for part in page.split("<tr>") if row.series.key in part)
    assert row.estimate is not None
    text = unescape(re.sub(r"<[^>]+>", " ", row_html))
    for said in ("Improved", f"{row.estimate.change * 100:+.1f} %".replace("-", "−"), "faster", " to ", "µs"):
        assert said in text
    assert re.search(r"\d× ", text)  # against noise
    assert f"{row.estimate.noise * 100:.2f} %" in text


def test_the_summary_is_of_the_rows_that_match(client: FlaskClient, judged: Comparison) -> None:
    everything, rope = (_page(client, judged, f"&show=all{more}") for more in ("", "&kernel=rope"))
    means = [
        re.findall(r">latency <b>\s*<span[^>]*>([^<]+).*?\(geometric mean of (\d+)\)", page)
        for page in (everything, rope)
    ]
    assert means[0] != means[1]
    rows = [row for row in judged.rows if row.series.suite.endswith("Rope") and row.series.metric_record.is_latency]
    assert int(means[1][0][1]) == sum(row.estimate is not None for row in rows)
    assert f"{_rows(rope)} rows shown" in rope


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ("machine=runner-t4", lambda row: row.series.machine == "runner-t4"),
        ("kernel=int4_linear", lambda row: "int4_linear" in row.series.benchmark),
        ("verdict=improved", lambda row: row.verdict is Verdict.IMPROVED),
        ("q=decode+t4", lambda row: "decode" in row.series.title and row.series.machine == "runner-t4"),
        ("metric=kernels_launched", lambda row: row.series.metric == "kernels_launched"),
        ("dtype=bf16", lambda row: False),
    ],
)
def test_a_filter_in_the_url_keeps_its_rows_alone(
    client: FlaskClient, judged: Comparison, more: str, kept: object
) -> None:
    wanted = {row.series.key for row in judged.rows if kept(row)}  # type: ignore[operator]
    assert _keys(client, judged, f"&show=all&{more}") == wanted


def test_a_least_magnitude_keeps_what_moved_that_far_either_way(client: FlaskClient, judged: Comparison) -> None:
    keys = _keys(client, judged, "&show=all&min=5")
    far = {row.series.key for row in judged.rows if row.estimate and not 1 / 1.05 < 1 + row.estimate.change < 1.05}
    assert keys == far
    assert far


def test_what_the_url_leaves_open_is_put_into_it(client: FlaskClient, store: Store, addresses: dict[str, str]) -> None:
    commits = [commit.hash for commit in queries.commits(store, "kernels")]
    slow = addresses["slow_commit"]
    before = commits[commits.index(slow) + 1]
    answer = client.get(f"/kernels/compare?head={slow[:8]}&kernel=rope")
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/kernels/compare?head={slow}&kernel=rope&base={before}"
    newest = client.get(f"/kernels/compare?base={before[:9]}")
    assert newest.headers["Location"] == f"/kernels/compare?base={before}&head={commits[0]}"


def test_branches_and_tags_of_a_known_repository_are_sides(client: FlaskClient, store: Store) -> None:
    newest = queries.commits(store, "kernels", limit=1)[0].hash
    answer = client.get("/kernels/compare?base=main~3&head=main")
    assert f"head={newest}" in answer.headers["Location"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("base=feedfeed&head=main", "named “feedfeed”"),
        ("base=--upload-pack=x&head=main", "named “--upload-pack=x”"),
        (f"base={quote(HOSTILE)}&head=main", "is named"),
        (f"base={quote(':/c')}&head=main", "named “:/c”"),
        (f"base={quote('main^{/c}')}&head=main", "named “main^{/c}”"),
        ("by=implementation&base=sdpa&head=toaster", "has no implementation “toaster”"),
        ("by=machine&base=nvidia-h200&head=none", "has no machine “none”"),
    ],
)
def test_a_missing_side_is_reported_in_a_sentence_above_the_form(
    client: FlaskClient, query: str, sentence: str
) -> None:
    answer = client.get(f"/kernels/compare?{query}")
    said = unescape(answer.text)
    assert answer.status_code == 404
    assert sentence in said
    assert "<form" in answer.text
    assert HOSTILE not in answer.text


def test_too_few_digits_of_a_hash_name_no_commit(client: FlaskClient, store: Store) -> None:
    newest = queries.commits(store, "kernels")[0].hash
    answer = client.get(f"/kernels/compare?base={newest[:2]}&head=main")
    assert answer.status_code == 404
    assert "Use a branch, a tag, or at least 7 digits of a hash." in unescape(answer.text)


def test_commits_between_are_counted_and_arrows_lead_to_the_neighbours(client: FlaskClient, store: Store) -> None:
    commits = queries.commits(store, "kernels")
    page = client.get(f"/kernels/compare?base={commits[5].hash}&head={commits[2].hash}").text
    assert "2 commits between" in page
    for name, neighbour in (("base", commits[6]), ("base", commits[4]), ("head", commits[3]), ("head", commits[1])):
        assert re.search(rf'{name}={neighbour.hash}[^"]*" title', page)
    assert "neighbours" in client.get(f"/kernels/compare?base={commits[3].hash}&head={commits[2].hash}").text


def test_an_opened_row_shows_samples_history_code_and_the_command(
    client: FlaskClient, store: Store, addresses: dict[str, str]
) -> None:
    slow = addresses["slow_commit"]
    url = f"/kernels/compare/row?head={slow}&series={addresses['slowed']}"
    whole, part = client.get(url), client.get(f"{url}&part=1")
    assert whole.status_code == part.status_code == 200
    assert "<html" in whole.text
    assert "<html" not in part.text
    commits = queries.commits(store, "kernels")
    base = next(commits[n + 1] for n, commit in enumerate(commits) if commit.hash == slow)
    samples = queries.samples_at(store, addresses["slowed"], slow)
    assert len(samples) == 1
    for page in (whole.text, part.text):
        assert page.count("data-chart") == 2
        assert '"type":"box"' in page
        assert f"head {slow[:8]}" in page
        assert f"{len(samples[0])} samples" in page
        assert "registers <b" in re.sub(r"\s+", " ", page)
        assert "96 → 128" in page
        assert f"warpwatch gate {base.hash} {slow} --bench" in page


@pytest.mark.parametrize("by", ["kernel", "commits", "Machine", "<b>"])
def test_an_unknown_kind_of_comparison_is_reported_and_compares_no_commits(client: FlaskClient, by: str) -> None:
    for path in ("", "/row"):
        answer = client.get(f"/kernels/compare{path}", query_string={"by": by, "base": "", "head": ""})
        assert answer.status_code == 404
        assert "choose one of commit, machine, implementation" in answer.text
        assert "<b>”" not in answer.text


def test_a_row_of_other_sides_is_a_404(client: FlaskClient, addresses: dict[str, str]) -> None:
    for path in (f"?head={addresses['slow_commit']}&series={addresses['hostile']}", "?head=nothing&series=x", ""):
        assert client.get(f"/kernels/compare/row{path}").status_code == 404


def test_our_kernel_is_listed_with_the_baselines_of_the_same_runs(client: FlaskClient) -> None:
    answer = client.get("/kernels/compare?by=implementation&base=sdpa&head=warpwatch", follow_redirects=True)
    page = answer.text
    assert answer.status_code == 200
    assert "against <b>SDPA</b>" in page
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))
    assert "Better" in text
    assert re.search(r"1\.[23]\d× ", text)  # the recorded SDPA takes 1.31 times as long
    assert "rope" not in page.split("<tbody>")[1]
    everything = client.get("/kernels/compare?by=implementation&base=&head=", follow_redirects=True).text
    assert {"cuBLAS", "SDPA", "PyTorch eager"} <= set(re.findall(r"ww-below\">([^<]+)</span>", everything))


def test_latency_comes_first_where_rivals_are_compared(store: Store) -> None:
    newest = queries.commits(store, "kernels", limit=1)[0]
    rows = compare_implementations(store, "kernels", newest, "", "", threshold=0.02).rows
    first = [row.series.metric_record.is_latency for row in rows]
    assert True in first
    assert False in first
    assert first == sorted(first, reverse=True)


def test_two_machines_are_compared_at_the_newest_commit_of_both(client: FlaskClient, store: Store) -> None:
    answer = client.get("/kernels/compare?by=machine&base=nvidia-h200&head=runner-t4", follow_redirects=True)
    newest = queries.newest_measured(store, "kernels", ["nvidia-h200", "runner-t4"])
    assert newest is not None
    assert answer.request.args["commit"] == newest.hash
    latencies = client.get(f"{answer.request.full_path}&metric=latency").text
    speeds = [float(each) for each in re.findall(r'data-label="Speed">([\d.]+)×', latencies)]
    assert speeds
    assert all(0.04 < speed < 0.12 for speed in speeds)  # a thirteenth, as recorded


def test_without_parameters_the_newest_commit_is_compared_with_one_before_it_of_the_same_machine(
    client: FlaskClient, store: Store
) -> None:
    asked = client.get("/kernels/compare", follow_redirects=True).request.args
    newest, *older = queries.commits(store, "kernels")
    assert asked["head"] == newest.hash

    def machines(commit: str) -> set[str]:
        return {each.machine for each in queries.measured_on(store, "kernels", commit)}

    assert asked["base"] == next(each.hash for each in older if machines(each.hash) & machines(newest.hash))


def test_without_parameters_the_first_two_machines_are_compared(client: FlaskClient, store: Store) -> None:
    asked = client.get("/kernels/compare?by=machine", follow_redirects=True).request.args
    assert [asked["base"], asked["head"]] == [each.name for each in queries.machines(store, "kernels")][:2]


def test_machines_without_a_common_commit_are_compared_at_the_newest_of_each(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'history.db'}")
    repository, results = write_recorded(tmp_path / "kernels", commits=4)
    store = Store(settings.database)
    import_results(store, open_folder(results, project="kernels", repository=repository))
    newest, *_ = queries.commits(store, "kernels")
    store.close()
    for file in [*(results / "runner-t4").glob(f"{newest.hash[:8]}-*"), *_others(results / "nvidia-h200", newest.hash)]:
        file.unlink()
    settings = Settings(database=f"sqlite:///{tmp_path / 'apart.db'}")
    store = Store(settings.database)
    import_results(store, open_folder(results, project="kernels", repository=repository))
    answer = create_app(settings).test_client().get("/kernels/compare?by=machine", follow_redirects=True)
    at_newest = queries.newest_measured(store, "kernels", ["runner-t4"])
    store.close()
    assert at_newest is not None
    assert at_newest.hash != newest.hash
    assert "no commit was measured on both" in answer.text
    assert f"/commit/{newest.hash}" in answer.text
    assert f"/commit/{at_newest.hash}" in answer.text
    assert re.search(r'data-label="Speed">[\d.]+×', answer.text)


def _others(folder: Path, commit: str) -> list[Path]:
    """Result files of other commits."""
    return [file for file in folder.glob("*-*.json*") if not file.name.startswith(commit[:8])]


def test_an_empty_project_says_what_to_do(client: FlaskClient) -> None:
    assert "two are needed" in client.get("/young/compare", follow_redirects=True).text
    assert client.get("/young/compare?by=implementation&commit=", follow_redirects=True).status_code == 200


def test_a_hostile_name_stays_text(client: FlaskClient, store: Store) -> None:
    project = quote(HOSTILE.replace("~", "~0").replace("/", "~1"), safe="~")
    commits = queries.commits(store, HOSTILE)
    page = client.get(f"/{project}/compare?base={commits[-1].hash}&head={commits[0].hash}&show=all")
    assert page.status_code == 200
    row = unescape(re.findall(r'href="([^"]+compare/row[^"]+)"', page.text)[0])
    opened = client.get(f"{row}&part=1")
    for answer in (page, opened, client.get(f"/{project}/commit/{commits[0].hash}")):
        assert answer.status_code == 200
        assert "<img src=x" not in answer.text
        assert "</script><script>document" not in answer.text


def test_a_comparison_is_made_anew_when_something_new_is_recorded(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'history.db'}")
    repository, results = write_recorded(tmp_path / "kernels", commits=4)
    store = Store(settings.database)
    late = list((results / "runner-t4").glob("*-*.json*"))
    kept = {file: file.read_bytes() for file in late}
    for file in late:
        file.unlink()
    import_results(store, open_folder(results, project="kernels", repository=repository))
    client = create_app(settings).test_client()
    commits = queries.commits(store, "kernels")
    url = f"/kernels/compare?base={commits[1].hash}&head={commits[0].hash}&show=all&q=runner-t4"
    assert _rows(client.get(url).text) == 0
    for file, content in kept.items():
        file.write_bytes(content)
    import_results(store, open_folder(results, project="kernels", repository=repository))
    assert _rows(client.get(url).text) > 0
    store.close()


def test_the_list_of_commits_leads_to_their_comparisons(client: FlaskClient, store: Store) -> None:
    commits = queries.commits(store, "kernels")
    page = client.get("/kernels/commits").text
    assert f"compare?base={commits[1].hash}&amp;head={commits[0].hash}" in page
    assert page.count(">Compare</a>") == len(commits) - 1 + 1  # and the tab
