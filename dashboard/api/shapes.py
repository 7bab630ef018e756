"""What several resources answer with: commits, series, magnitudes. A field's name tells its unit; `null` is "unknown".
JSON knows neither NaN nor infinity: pydantic writes null for both.

Everything is as the store has it, unscaled. Relative changes are fractions: 0.04 is 4 % more.
"""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from warpwatch.dashboard.metrics import Better
from warpwatch.dashboard.store.records import Commit, Series

_NOT_SORTED_IN = 2**31


class Shape(BaseModel):
    """One object of an answer. An attribute's docstring is its description in the document."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)
    csv_rows: ClassVar[str] = "items"  # the field with what is a row each as CSV


class Listing(Shape):
    """A part of a list. `next` is the address of the next part, null on the last."""

    total: int = Field(ge=0)
    limit: int = Field(ge=1)
    offset: int = Field(ge=0)
    next: str | None


class CommitShape(Shape):
    """A commit that has results."""

    hash: str
    date: datetime
    """When it was committed, UTC."""
    subject: str | None
    author: str | None
    position: int | None
    """Its place in the project's order of commits that have results."""


class SeriesShape(Shape):
    """One quantity of one benchmark with its parameters, on one machine in one environment."""

    key: str = Field(pattern="^[0-9a-f]{16}$")
    """The same in every store, and in the addresses of pages."""
    benchmark: str
    parameters: dict[str, str]
    workload: str | None
    implementation: str | None
    metric: str
    unit: str
    """Of every value of the series, as its project recorded it."""
    better: Literal["lower", "higher"]
    machine: str
    environment: str
    role: Literal["ours", "baseline", "canary"]
    """A baseline is a rival's; a canary is fixed work that no commit changes."""
    is_judged: bool
    """Whether changes of this metric are verdicts."""
    is_listed: bool
    """Whether the project's benchmarks still have it."""


def commit_shape(commit: Commit) -> CommitShape:
    return CommitShape.model_construct(
        hash=commit.hash, date=commit.date, subject=commit.subject, author=commit.author,
        position=commit_position(commit),
    )  # fmt: skip


def commit_position(commit: Commit) -> int | None:
    """Its place in the project's order; None until it is sorted in."""
    return commit.position if commit.position < _NOT_SORTED_IN else None


def series_shape(series: Series) -> SeriesShape:
    metric = series.metric
    return SeriesShape.model_construct(
        key=series.key, benchmark=series.benchmark, parameters=dict(series.parameters), workload=series.workload,
        implementation=series.implementation, metric=metric.name, unit=metric.unit,
        better="lower" if metric.better is Better.LOWER else "higher", machine=series.machine,
        environment=series.environment,
        role="canary" if series.is_control else "baseline" if series.is_baseline else "ours",
        is_judged=metric.is_judged, is_listed=series.listed,
    )  # fmt: skip
