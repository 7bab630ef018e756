"""What the store keeps of accepted regressions."""

from datetime import UTC, datetime

import pytest

from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import acceptances, record_acceptances
from warpwatch.dashboard.store.project_writer import ProjectWriter


def test_a_repeated_acceptance_is_stored_once_as_first_stated(store: Store) -> None:
    ProjectWriter(store, "demo", repository=None, listed={})
    first = Acceptance(pattern="a*", reason="first", by="ann", at=datetime(2026, 1, 1, tzinfo=UTC), source="comment 1")
    again = Acceptance(pattern="a*", reason="again", by="ann", at=datetime(2026, 1, 2, tzinfo=UTC), source="comment 1")
    for said in (first, again):
        record_acceptances(store, "demo", "a" * 40, "b" * 40, [said], now_ms=1)
    assert acceptances(store, "demo", "a" * 40, "b" * 40) == (first,)
    assert acceptances(store, "demo", "a" * 40, "c" * 40) == ()
    with pytest.raises(ValueError, match="no project 'other'"):
        record_acceptances(store, "other", "a" * 40, "b" * 40, [first], now_ms=1)


@pytest.mark.parametrize("wrong", [{"reason": " "}, {"by": "a\0b"}, {"pattern": "x" * 3000}])
def test_an_acceptance_without_a_reason_or_a_name_is_none(wrong: dict[str, str]) -> None:
    fields = {"pattern": "a*", "reason": "b", "by": "c", "source": "d"} | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Acceptance(at=datetime(2026, 1, 1, tzinfo=UTC), **fields)
