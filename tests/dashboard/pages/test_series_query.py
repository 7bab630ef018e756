"""Queries of series by words and parameters."""

from collections.abc import Iterator

import pytest

from warpwatch.dashboard.model.series_query import SeriesQuery
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.queries.search import HitKind


@pytest.fixture(scope="module")
def store(history_store: Settings) -> Iterator[Store]:
    store = Store(history_store.database)
    yield store
    store.close()


def found(store: Store, search: str) -> list[tuple[str | None, str | None, str | None, str]]:
    known = queries.project_workloads(store, "kernels")
    page = queries.find_series(store, "kernels", search=search, limit=100_000)
    assert page.total == len(page.series)
    rows = []
    for series in page.series:
        workload = known.get((series.suite, series.workload or ""))
        rows.append(
            (workload and workload.operator, workload and workload.dtype, series.implementation, series.metric.name)
        )
    return rows


def test_words_and_conditions_are_distinguished() -> None:
    query = SeriesQuery.parse("Attention DTYPE=fp16,bf16 seq_kv>=4096 implementation!=triton")
    assert query.words == ("attention",)
    assert [(each.name, each.relation, each.values) for each in query.conditions] == [
        ("dtype", "=", ("fp16", "bf16")),
        ("seq_kv", ">=", ("4096",)),
        ("implementation", "!=", ("triton",)),
    ]
    assert not SeriesQuery.parse("  ")


def test_a_condition_selects_by_its_parameter(store: Store) -> None:
    everything = found(store, "")
    dtypes = {dtype for _, dtype, _, _ in everything if dtype}
    assert len(dtypes) > 1
    for dtype in dtypes:
        assert found(store, f"dtype={dtype}") == [row for row in everything if row[1] == dtype]
    both = ",".join(sorted(dtypes)[:2])
    assert found(store, f"dtype={both}") == [row for row in everything if row[1] in sorted(dtypes)[:2]]


def test_a_wildcard_and_a_negation(store: Store) -> None:
    everything = found(store, "")
    kernels = [row for row in everything if row[0] and "attention" in row[0]]
    assert kernels
    assert found(store, "kernel=*attention*") == kernels
    assert found(store, "kernel=*attention* implementation!=warpwatch metric=latency") == [
        row for row in kernels if row[2] not in {None, "warpwatch"} and row[3] == "latency"
    ]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("seq>=512", True),
        ("seq>512", False),
        ("seq<1e3", True),
        ("seq<=511", False),
        ("seq>64", True),  # as text "512" < "64"
        ("seq>many", False),
        ("causal=true", True),
        ("causal!=true", False),
        ("mask>1", False),
        ("other<1", False),
    ],
)
def test_numbers_are_ordered_as_numbers(text: str, holds: bool) -> None:
    (condition,) = SeriesQuery.parse(text).conditions
    assert condition.matches({"seq": "512", "causal": "true", "mask": "full"}) is holds


def test_an_unknown_parameter_matches_nothing(store: Store) -> None:
    assert found(store, "no_such_parameter=1") == []
    assert found(store, "no_such_parameter!=1") == []


def test_a_search_with_conditions_finds_kernels_workloads_and_series(store: Store) -> None:
    result = queries.search(store, "kernel=*attention* dtype=fp16", project="kernels", limit=5)
    kinds = {each.kind: each for each in result.kinds}
    assert set(kinds) == {HitKind.KERNEL, HitKind.WORKLOAD, HitKind.SERIES}
    assert all("attention" in hit.name for hit in kinds[HitKind.KERNEL].hits)
    assert (
        kinds[HitKind.SERIES].total
        == queries.find_series(store, "kernels", search="kernel=*attention* dtype=fp16").total
    )
