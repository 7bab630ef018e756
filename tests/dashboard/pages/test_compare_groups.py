"""The top of a comparison: verdict line, kernels, and the distribution of changes."""

from collections import Counter
from collections.abc import Sequence

import lxml.html
import pytest

from warpwatch.dashboard.analysis.compare_sides import compare_commits
from warpwatch.dashboard.analysis.comparison_columns import comparison_columns
from warpwatch.dashboard.model.comparison import ComparisonRow
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.comparison_filter import ComparisonFilter, apply
from warpwatch.dashboard.web.figures.change_histogram import change_histogram


@pytest.fixture(scope="module")
def rows(history_store: Settings) -> Sequence[ComparisonRow]:
    store = Store(history_store.database)
    commits = queries.commits(store, "kernels")
    found = compare_commits(store, "kernels", commits[-1], commits[0], threshold=0.02).rows
    store.close()
    return found


def test_groups_have_every_matching_row_and_changed_kernels_come_first(rows: Sequence[ComparisonRow]) -> None:
    groups = apply(ComparisonFilter(), rows, comparison_columns(rows)).groups
    assert {group.kernel: dict(group.counts) for group in groups} == {
        kernel: dict(Counter(row.verdict for row in rows if row.kernel == kernel))
        for kernel in {row.kernel for row in rows}
    }
    quiet = [group.is_quiet for group in groups]
    assert quiet == sorted(quiet)
    nothing = apply(ComparisonFilter(kernel="none of this name"), rows, comparison_columns(rows))
    assert (nothing.rows, nothing.groups, nothing.means, nothing.matching) == ((), (), (), ())


def test_the_histogram_has_every_row_with_an_estimate_once(rows: Sequence[ComparisonRow]) -> None:
    known = [row for row in rows if row.estimate is not None and row.estimate.change > -1]
    histogram = change_histogram(comparison_columns(known))
    assert histogram is not None
    drawn = Counter({trace.name: sum(trace.y) for trace in histogram.figure.data})
    assert sum(drawn.values()) + histogram.within == len(known)
    assert drawn["improved"] <= sum(row.verdict is Verdict.IMPROVED for row in known)
    assert change_histogram(comparison_columns(known[:3])) is None


def test_the_page_begins_with_the_verdict_and_a_kernel_filters_its_rows(
    history_store: Settings, rows: Sequence[ComparisonRow]
) -> None:
    store = Store(history_store.database)
    commits = queries.commits(store, "kernels")
    store.close()
    client = create_app(history_store).test_client()
    page = lxml.html.fromstring(client.get(f"/kernels/compare?base={commits[-1].hash}&head={commits[0].hash}").text)
    line = page.xpath('string(//p[@class="ww-verdict-line"])')
    counts = Counter(row.verdict for row in rows)
    for verdict, word in ((Verdict.REGRESSED, "Regressed"), (Verdict.IMPROVED, "Improved")):
        assert (f"{word} {counts[verdict]}" in " ".join(line.split())) is bool(counts[verdict])
    links = page.xpath('//section[@aria-labelledby="groups-heading"]//th/a/@href')
    assert len(links) == len({row.kernel for row in rows})
    assert client.get(links[0]).status_code == 200


def test_a_comparison_is_markdown_too(history_store: Settings) -> None:
    store = Store(history_store.database)
    commits = queries.commits(store, "kernels")
    store.close()
    client = create_app(history_store).test_client()
    answer = client.get(f"/kernels/compare?base={commits[-1].hash}&head={commits[0].hash}&format=markdown")
    assert answer.mimetype == "text/markdown"
    assert answer.text.startswith("### warpwatch: ")
