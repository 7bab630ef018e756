"""The trial of the L2's state: its table is the recorded one, and what the README concludes from it is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perf_suite.catalogue import workload_named
from perf_suite.trials import flushed_l2

TRIALS = Path(flushed_l2.__file__).parent


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = json.loads((TRIALS / "flushed-l2-h200.json").read_text())["calls"]
    return calls


def test_the_readme_shows_what_was_recorded(recorded: list[dict[str, Any]]) -> None:
    assert flushed_l2.table(recorded) in (TRIALS / "README.md").read_text()


def test_every_call_is_one_of_the_catalogue_and_was_recorded(recorded: list[dict[str, Any]]) -> None:
    for operator, name, implementation in flushed_l2.CALLS:
        assert implementation in workload_named(operator, name).implementations
    assert [(each["benchmark"], each["implementation"]) for each in recorded] == [
        (f"{operator}.{name}", implementation) for operator, name, implementation in flushed_l2.CALLS
    ]


def test_the_steady_state_lies_between_clean_and_written_lines(recorded: list[dict[str, Any]]) -> None:
    for each in recorded:
        assert each["read_s"] * 0.99 <= each["steady_s"] <= each["written_s"] * 1.01, each
