"""A measurement as a row: which columns an export has, and what stands in them."""

from collections.abc import Iterator
from typing import Any

from warpwatch.dashboard.store.records import Measured

COLUMNS = (
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


def series_cells(measured: Measured) -> tuple[Any, ...]:
    """The cells that all rows of a series share: the columns from project to environment. Parameters are a mapping."""
    series = measured.series
    return (
        series.project, series.key, series.benchmark, dict(series.parameters), series.workload,
        series.implementation, series.metric.name, series.metric.unit, series.metric.better.value, series.machine,
        series.environment,
    )  # fmt: skip


def point_cells(measured: Measured) -> Iterator[tuple[Any, ...]]:
    """The other columns, from card to reason, of each row."""
    for point in measured.points:
        yield (
            point.card, point.commit.hash, point.commit.date, point.commit.position, point.run, point.run_time,
            point.value, point.q25, point.q75, point.sample_count, point.status.value, point.reason,
        )  # fmt: skip
