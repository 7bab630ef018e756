"""Notes on commits and on series at them. Both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.asv_results import hash_of
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.notes import NothingToAnnotateError, add_annotation, annotations, delete_annotation

NOTE = {"author": "Ada", "text": "new driver from here on", "now_ms": 1_000}


@pytest.fixture
def key(store: Store, timed_history: Callable[..., Any]) -> str:
    """A project with three commits and one series; the series' key."""
    timed_history([1.0, 2.0, 3.0]).load(store)
    return queries.find_series(store, "demo").series[0].key


def test_a_note_comes_back_as_it_was_written(store: Store, key: str) -> None:
    whole = add_annotation(store, "demo", hash_of(1), **NOTE)
    one = add_annotation(store, "demo", hash_of(1), series=key, author=" Bo ", text=" only here \n", now_ms=2_000)
    first, second = annotations(store, "demo")
    assert (first.id, first.commit, first.series, first.author, first.text) == (
        whole,
        hash_of(1),
        None,
        "Ada",
        "new driver from here on",
    )
    assert first.created.timestamp() == 1.0
    assert (second.id, second.series, second.author, second.text) == (one, key, "Bo", "only here")


def test_notes_stand_in_the_order_of_commits(store: Store, key: str) -> None:
    for number in (2, 0, 1):
        add_annotation(store, "demo", hash_of(number), **NOTE)
    assert [note.commit for note in annotations(store, "demo")] == [hash_of(n) for n in (0, 1, 2)]


def test_a_commits_notes_and_a_series_notes(store: Store, key: str, asv: Any) -> None:
    asv.commit(1, {"suite.Other.time_it": asv.row([1.0])})
    asv.load(store)
    other = queries.find_series(store, "demo", search="Other").series[0].key
    whole = add_annotation(store, "demo", hash_of(1), **NOTE)
    mine = add_annotation(store, "demo", hash_of(1), series=key, **NOTE)
    elsewhere = add_annotation(store, "demo", hash_of(2), series=other, **NOTE)
    assert [note.id for note in annotations(store, "demo", commit=hash_of(1))] == [whole, mine]
    assert [note.id for note in annotations(store, "demo", commit=hash_of(2))] == [elsewhere]
    assert annotations(store, "nobody") == ()


def test_a_deleted_note_is_gone_and_only_from_its_own_project(store: Store, key: str) -> None:
    note = add_annotation(store, "demo", hash_of(1), **NOTE)
    assert not delete_annotation(store, "another", note)
    assert delete_annotation(store, "demo", note)
    assert not delete_annotation(store, "demo", note)
    assert annotations(store, "demo") == ()


def test_what_is_not_recorded_cannot_be_annotated(store: Store, key: str) -> None:
    with pytest.raises(NothingToAnnotateError, match="no commit 'beef'"):
        add_annotation(store, "demo", "beef", **NOTE)
    with pytest.raises(NothingToAnnotateError, match="no series 'nokey'"):
        add_annotation(store, "demo", hash_of(1), series="nokey", **NOTE)
    with pytest.raises(NothingToAnnotateError, match="another has no commit"):
        add_annotation(store, "another", hash_of(1), **NOTE)
    assert annotations(store, "demo") == ()


def test_an_empty_note_or_one_that_no_database_takes_is_refused(store: Store, key: str) -> None:
    for wrong in ({"text": "  "}, {"author": ""}, {"text": "a\0b"}, {"author": "half \ud800"}):
        with pytest.raises(ValueError, match="text and an author"):
            add_annotation(store, "demo", hash_of(1), **NOTE | wrong)
    assert annotations(store, "demo") == ()
