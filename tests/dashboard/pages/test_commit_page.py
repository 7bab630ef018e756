"""All that one commit did, on its page."""

import re
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path

import lxml.html
import pytest
from flask.testing import FlaskClient

from tests.asv_results import AsvResults, hash_of
from tests.dashboard.suite_results import Suite
from warpwatch.dashboard.analysis.commit_kernels import kernels_at_commit
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.compare_sides import compare_commits
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.notes import add_annotation, delete_annotation
from warpwatch.dashboard.text.change_words import agreement_words
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


def test_a_commits_page_begins_with_its_verdict_and_says_all_it_did(
    client: FlaskClient, store: Store, addresses: dict[str, str]
) -> None:
    slow = addresses["slow_commit"]
    note = add_annotation(store, "kernels", slow, author="Ada", text="driver <b>updated</b>", now_ms=1_770_000_000_000)
    page = client.get(f"/kernels/commit/{slow}").text
    delete_annotation(store, "kernels", note)
    parts = (
        "against",
        "Changes at this commit",
        "Compiled code against",
        "Measured on",
        "Notes",
        "Recorded at this commit",
    )
    order = [page.index(said) for said in parts]
    assert order == sorted(order)
    commits = queries.commits(store, "kernels")
    base = next(commits[n + 1] for n, commit in enumerate(commits) if commit.hash == slow)
    judged = check(store, "kernels", base, next(c for c in commits if c.hash == slow), threshold=THRESHOLD)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for verdict in (Verdict.UNCHANGED, Verdict.MISSING):
        if judged.count(verdict):
            assert f"{judged.count(verdict)} {verdict.value}" in text
    assert "96 → 128" in page
    assert "Tesla" not in page.split("Measured on")[0]
    assert {"runner-t4", "nvidia-h200", "550.54.15", "580.65.06"} <= set(re.findall(r"[\w.-]+", text))
    assert "driver &lt;b&gt;updated&lt;/b&gt;" in page
    assert f"compare?base={base.hash}&amp;head={slow}" in page


def test_what_failed_at_a_commit_stands_with_its_reason(client: FlaskClient, store: Store) -> None:
    newest = queries.commits(store, "kernels", limit=1)[0]
    page = unescape(client.get(f"/kernels/commit/{newest.hash}").text)
    assert "failed: CompilationError: shared memory, 98304 bytes wanted, 65536 there" in page
    first = queries.commits(store, "kernels")[-1]
    assert "No earlier commit has results" in client.get(f"/kernels/commit/{first.hash}").text


def test_a_commits_page_shows_the_size_of_its_library_and_what_compiling_it_took(
    asv: AsvResults, tmp_path: Path
) -> None:
    name = "benchmarks.compiled_code.CompiledLibrary.track_"
    asv.benchmark(f"{name}build_time", unit="seconds")
    asv.benchmark(f"{name}library_size", unit="bytes")
    for number, (seconds, size) in enumerate([(758.0, 79_000_000), (300.0, 14_100_000)]):
        asv.commit(
            number,
            {
                f"{name}build_time": asv.row([seconds], started_at=number + 1),
                f"{name}library_size": asv.row([size], started_at=number + 1),
            },
        )
    settings = Settings(database=str(tmp_path / "history.db"))
    with closing(Store(settings.database)) as store:
        import_results(store, open_folder(asv.folder, project="kernels"))
    page = create_app(settings).test_client().get(f"/kernels/commit/{hash_of(1)}").text
    build = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.split('id="build-heading"')[1].split("</section>")[0]))
    assert re.search(r"CPU time of compiling \S+ 300 s 758 s −60.4 %", build)
    assert re.search(r"Library size \S+ 14.1 MB 79.0 MB −82.2 %", build)


def _lines(client: FlaskClient, commit: str) -> dict[str, dict[str, str]]:
    """The cells of the kernels' table, by kernel and machine."""
    page = lxml.html.fromstring(client.get(f"/kernels/commit/{commit}").text)
    lines = {}
    for row in page.xpath('//table[contains(@class, "ww-kernels-here")]/tbody/tr'):
        cells = {cell.get("data-label"): " ".join(cell.text_content().split()) for cell in row.xpath("td")}
        lines[f"{row.xpath('string(th/a)')} {cells.get('Machine', '')}".strip()] = cells
    return lines


def test_a_commits_kernels_have_a_line_each_with_the_pair_and_the_history(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    lines = _lines(client, addresses["slow_commit"])
    assert lines
    for cells in lines.values():
        (against,) = (text for label, text in cells.items() if label.startswith("Against"))
        assert (against != "no significant change") or (cells["By history"] != "no change")
        assert re.match(
            r"both agree|pair only; history: .+|history only; pair: .+|they show different", cells["Agreement"]
        )
        if cells["Agreement"] == "both agree":
            assert against != "no significant change"
            assert cells["By history"] != "no change"


def test_a_history_of_noise_says_why_it_has_no_step_where_the_pair_has_a_change(
    asv: AsvResults, tmp_path: Path
) -> None:
    history = Suite(asv)
    for number in range(12):
        history.commit(number, {"warpwatch": 1.3 if number == 11 else 1.0})
    settings = Settings(database=f"sqlite:///{tmp_path / 'newest.db'}")
    store = Store(settings.database)
    asv.load(store)
    commits = queries.commits(store, "demo")
    page = queries.commit_page(store, "demo", commits[0].hash)
    assert page is not None
    compared = compare_commits(store, "demo", commits[1], commits[0], threshold=THRESHOLD)
    workloads = queries.project_workloads(store, "demo")
    (line,) = kernels_at_commit(compared, compared.rows, page.changes, workloads, is_newest=True)
    assert (line.kernel, line.machine, line.has_operator) == ("rope", "box", True)
    assert [each.verdict for each in line.pair.every] == [Verdict.REGRESSED]
    expected = "both agree" if line.history else "pair only; history: needs later commits or further runs"
    assert agreement_words(line).startswith(expected)
    without = kernels_at_commit(compared, compared.rows, (), workloads, is_newest=False)[0]
    assert agreement_words(without) == "pair only; history: no lasting change of level here"
    store.close()
