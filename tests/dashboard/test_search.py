"""Search: every word in any order, beginnings of parts first, hashes, other projects, and a word much alike."""

from typing import Any

import pytest

from tests.asv_results import AsvResults
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.queries.search import HitKind, SearchResult


@pytest.fixture
def filled(store: Store, tmp_path: Any) -> Store:
    """Two projects of a few benchmarks, on both kinds of database."""
    for project, names in (
        ("kernels", ("rope.Rope.track_latency", "attention.FlashAttention.track_latency", "rope.Rope.peakmem_grope")),
        ("arrays", ("sorting.Sort.time_sort", "sorting.Sort.time_100%_sorted")),
    ):
        asv = AsvResults(tmp_path / project)
        for name in names:
            asv.benchmark(name, size=["128", "4096"])
        for number in range(3):
            asv.commit(number, {name: asv.row([1e-3, 2e-3], [["128", "4096"]]) for name in names})
        import_results(store, open_folder(asv.folder, project=project))
    return store


def _names(found: SearchResult, kind: HitKind) -> list[str]:
    return [hit.name for each in found.kinds if each.kind is kind for hit in each.hits]


def test_words_stand_in_any_order_and_case(filled: Store) -> None:
    there = queries.search(filled, "rope latency 4096", project="kernels")
    assert _names(there, HitKind.SERIES) == ["rope.Rope.track_latency(4096)"]
    assert queries.search(filled, "4096 LATENCY Rope", project="kernels") == there
    assert queries.search(filled, "  ", project="kernels").total == 0


def test_a_part_that_begins_with_the_word_comes_before_one_that_holds_it(filled: Store) -> None:
    names = _names(queries.search(filled, "rop", project="kernels"), HitKind.SERIES)
    assert [name.split("(")[0] for name in names] == ["rope.Rope.track_latency"] * 2 + ["rope.Rope.peakmem_grope"] * 2
    grope = queries.search(filled, "grop", project="kernels")
    assert grope.total == 2
    assert _names(queries.search(filled, "mem_grope", project="kernels"), HitKind.SERIES) == _names(
        grope, HitKind.SERIES
    )


def test_what_has_a_meaning_to_a_database_is_a_letter_here(filled: Store) -> None:
    assert _names(queries.search(filled, "100%", project="arrays"), HitKind.SERIES)
    assert queries.search(filled, "100%_s", project="arrays").total == 2
    assert queries.search(filled, "%", project="kernels").total == 0


def test_a_commit_is_found_by_the_beginning_of_its_hash_alone(filled: Store) -> None:
    whole = queries.commits(filled, "kernels")[0].hash
    for length in (4, 8, 40):
        found = queries.search(filled, whole[:length].upper(), project="kernels")
        assert whole in [hit.place for each in found.kinds if each.kind is HitKind.COMMIT for hit in each.hits]
    inner = queries.search(filled, whole[3:20], project="kernels")
    assert whole not in [hit.place for each in inner.kinds for hit in each.hits if each.kind is HitKind.COMMIT]


def test_all_projects_are_searched_where_none_is_named(filled: Store) -> None:
    everywhere = queries.search(filled, "so")
    assert {hit.project for each in everywhere.kinds for hit in each.hits} == {"arrays"}
    assert _names(everywhere, HitKind.MODULE) == ["sorting"]
    assert _names(queries.search(filled, "kern"), HitKind.PROJECT) == ["kernels"]


def test_a_slip_of_the_hand_is_offered_the_word_that_is_there(filled: Store) -> None:
    slipped = queries.search(filled, "atention latency", project="kernels")
    assert (slipped.total, slipped.suggestion) == (0, "attention latency")
    assert queries.search(filled, "zzzzqqq", project="kernels").suggestion is None
    # Both words are there, and nothing has both: no other word would be of help.
    assert queries.search(filled, "grope attention", project="kernels").suggestion is None


def test_no_more_than_the_limit_are_returned_and_all_are_counted(filled: Store) -> None:
    (series,) = (each for each in queries.search(filled, "r", limit=2).kinds if each.kind is HitKind.SERIES)
    assert (len(series.hits), series.total) == (2, 10)


def test_a_new_name_is_found_at_once(filled: Store, tmp_path: Any) -> None:
    assert queries.search(filled, "newcomer", project="kernels").total == 0
    asv = AsvResults(tmp_path / "later")
    asv.benchmark("newcomer.time_it")
    asv.commit(9, {"newcomer.time_it": asv.row([1e-3])})
    import_results(filled, open_folder(asv.folder, project="kernels"))
    assert queries.search(filled, "newcomer", project="kernels").total == 2  # the series and its module
