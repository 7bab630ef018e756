"""A measurement as a row: which columns an export has, and what stands in them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from warpwatch.dashboard.store.columns import optional
from warpwatch.dashboard.store.measured import Measured
from warpwatch.dashboard.store.records import Series

SERIES_COLUMNS = (
    "project",
    "series",  # the key that is in the addresses of pages
    "benchmark",
    "parameters",  # by name, as text
    "workload",  # the parameter of that name, and
    "implementation",  # of this one; null where there is none
    "metric",
    "unit",  # of value, q25 and q75, which are as recorded
    "better",  # lower or higher
    "machine",
    "environment",
)
COLUMNS = (
    *SERIES_COLUMNS,
    "card",  # UUID of the GPU; null where none is known
    "commit",  # full hash
    "date",  # when it was committed
    "position",  # of the commit in the project's order
    "run",
    "run_time",  # when that began; null where it is not known
    "value",  # null unless the status is ok
    "q25",  # quartiles of the samples, and how many those were
    "q75",
    "sample_count",
    "status",  # ok, invalid, failed, unavailable or unchanged
    "reason",  # of what is not ok
)


def series_cells(series: Series) -> tuple[Any, ...]:
    """The cells that all rows of a series share. Parameters are a mapping."""
    return (
        series.project, series.key, series.benchmark, dict(series.parameters), series.workload,
        series.implementation, series.metric.name, series.metric.unit, series.metric.better.value, series.machine,
        series.environment,
    )  # fmt: skip


def point_cells(measured: Measured) -> Iterator[tuple[Any, ...]]:
    """The cells of each row that its series does not tell, from card to reason, as JSON has them: dates ISO 8601."""
    started = optional(measured.started_ms, measured.started_ms < 0)
    numbers = (optional(each, np.isnan(each)) for each in (measured.value, measured.q25, measured.q75))
    return zip(
        measured.card.texts(), measured.commit.texts(), map(_iso, measured.date_ms.tolist()),
        measured.position.tolist(), measured.run.texts(), map(_iso, started), *numbers,
        optional(measured.sample_count, measured.sample_count < 0), measured.status.texts(), measured.reason.texts(),
        strict=True,
    )  # fmt: skip


@lru_cache(maxsize=100_000)  # every series has the same commits
def _iso(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
