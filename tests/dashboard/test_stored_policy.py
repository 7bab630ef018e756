"""What the store keeps of the limits that a project states."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.thresholds import StatedLimits, series_limits
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import state_limits, stated_limits
from warpwatch.dashboard.store.project_writer import ProjectWriter

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
RULES = [
    {"kernel": ["rope*"], "parameters": {"dtype": "fp16"}, "threshold": 0.05, "floor": "1048577.25 bytes"},
    {"metric": "registers", "blocks": False},
    {"machine": "t4", "owners": ["ann@example.org"]},
]


def _stated(**overrides: object) -> StatedLimits:
    given = {
        "threshold": 0.03,
        "floor": "0.1 us",
        "rules": RULES,
        "source": "warpwatch.toml",
        "commit": "a" * 40,
        "committed": NOW - timedelta(days=1),
    }
    return StatedLimits.model_validate(given | overrides)


def _series(benchmark: str, parameters: dict[str, str]) -> Series:
    return Series(
        key="0" * 16,
        project="demo",
        benchmark=benchmark,
        parameters=tuple(parameters.items()),
        metric=metric("peak_memory", "bytes"),
        machine="t4",
        environment="",
        workload=None,
        implementation=None,
        is_baseline=False,
        listed=True,
    )


def test_what_is_stated_is_read_as_it_was_but_for_the_names_of_people(store: Store) -> None:
    ProjectWriter(store, "demo", repository=None, listed={})
    assert stated_limits(store, "demo") is None
    assert state_limits(store, "demo", _stated(), now_ms=NOW_MS)
    found = stated_limits(store, "demo")
    assert found == _stated(rules=RULES[:2])
    assert found is not None
    assert found.name == "warpwatch.toml of aaaaaaaa"
    limits = series_limits(found, {}, threshold=0.02)
    of_tomorrow = limits(_series("suite.rope.New.peakmem", {"dtype": "fp16"}))
    assert (of_tomorrow.threshold, of_tomorrow.floor) == (0.03, 0.0)  # its module is suite.rope: no glob of a rule
    of_tomorrow = limits(_series("rope_new.New.peakmem", {"dtype": "fp16"}))
    assert (of_tomorrow.threshold, of_tomorrow.floor) == (0.05, 1048577.25)
    with pytest.raises(ValueError, match="no project 'other'"):
        state_limits(store, "other", _stated(), now_ms=NOW_MS)


def test_the_newest_commits_statement_holds_in_whatever_order_they_come(store: Store) -> None:
    ProjectWriter(store, "demo", repository=None, listed={})
    newer = _stated(commit="b" * 40, committed=NOW, rules=[], threshold=0.5)
    assert state_limits(store, "demo", newer, now_ms=NOW_MS)
    assert not state_limits(store, "demo", _stated(), now_ms=NOW_MS + 1)
    assert stated_limits(store, "demo") == newer
    newest = _stated(commit="c" * 40, committed=NOW + timedelta(seconds=1), rules=[])
    assert state_limits(store, "demo", newest, now_ms=NOW_MS + 2000)
    assert stated_limits(store, "demo") == newest


def test_a_clock_that_is_ahead_does_not_hold_for_ever(store: Store) -> None:
    ProjectWriter(store, "demo", repository=None, listed={})
    ahead = _stated(commit="b" * 40, committed=NOW + timedelta(days=9999))
    assert state_limits(store, "demo", ahead, now_ms=NOW_MS)
    later = _stated(commit="c" * 40, committed=NOW + timedelta(hours=1), rules=[])
    assert state_limits(store, "demo", later, now_ms=NOW_MS + 3_600_000)
    assert stated_limits(store, "demo") == later


def test_what_pages_remember_is_renewed_by_other_limits_and_by_nothing_less(store: Store) -> None:
    for name in ("demo", "other"):
        ProjectWriter(store, name, repository=None, listed={})
    before = {name: store.generation(name) for name in ("demo", "other")}
    state_limits(store, "demo", _stated(), now_ms=NOW_MS)
    stated = store.generation("demo")
    assert stated > before["demo"]
    assert store.generation("other") == before["other"]
    state_limits(store, "demo", _stated(), now_ms=NOW_MS + 5)
    assert store.generation("demo") == stated


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": 2}, "less than 1"),
        ({"floor": "9" * 400 + " us"}, "no amount with a unit"),
        ({"floor": "1 \0"}, "no amount with a unit"),
        ({"rules": [{"metric": "a\0b", "blocks": False}]}, "rules.0.metric"),
        ({"rules": [{"parameters": {"a\0": "b"}, "blocks": False}]}, "rules.0.parameters"),
        ({"rules": [{"blocks": False}]}, "matches by nothing"),
        ({"commit": "x"}, "commit"),
        ({"source": "s" * 5000}, "source"),
        ({"wish": 1}, "wish"),
    ],
)
def test_what_cannot_be_meant_or_kept_is_refused_by_name(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        _stated(**wrong)
