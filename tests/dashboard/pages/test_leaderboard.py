"""Kernels against their best baselines."""

import re
from statistics import geometric_mean

from warpwatch.dashboard.analysis.compare_sides import leaderboard
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app


def test_a_kernels_standing_is_over_the_fastest_baseline_of_each_workload(history_store: Settings) -> None:
    store = Store(history_store.database)
    found = leaderboard(store, "kernels", queries.standings(store, "kernels"))
    assert {each.kernel for each in found} >= {"rope", "flash_attention", "int4_linear"}
    for each in found:
        rows = queries.report(store, project="kernels", machine=each.machine)
        ratios = [
            min(other.ratio for other in row.ratios)
            for row in rows
            if row.kernel == each.kernel and row.implementation == "warpwatch" and row.ratios
        ]
        assert each.workloads == len(ratios)
        assert abs(each.speedup / geometric_mean(ratios) - 1) < 1e-9
        assert (each.least, each.most) == (min(ratios), max(ratios))
        assert each.ahead == sum(ratio > 1 for ratio in ratios)
    store.close()


def test_comparing_implementations_begins_with_the_leaderboard(history_store: Settings) -> None:
    client = create_app(history_store).test_client()
    page = client.get("/kernels/compare?by=implementation").text
    assert page.index("</b> the best baseline") < page.index("Kernels against the best baseline")
    assert "Kernels against the best baseline" not in client.get("/kernels/compare").text


def test_the_list_of_projects_has_the_standing_of_those_with_baselines(history_store: Settings) -> None:
    rows = create_app(history_store).test_client().get("/").text.split("<tr>")
    (kernels,) = (row for row in rows if ">kernels</a>" in row)
    assert re.search(r'data-label="Against best baseline"><span[^>]*><b class="ww-value">[\d.]+×</b>\s*<svg', kernels)
