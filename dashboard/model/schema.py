"""Published JSON: the base of every schema, and the schemas of commits and series.

A field's docstring is its description in the OpenAPI document. Values are in the unit that was recorded, relative
changes are fractions (0.04 is 4 % more), times are UTC, and `null` is "unknown", which pydantic writes for NaN and
infinity too.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from .metric import Better, Metric, metric
from .series import UNORDERED_POSITION, Series


class Schema(BaseModel):
    """One object of published JSON."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)
    csv_rows: ClassVar[str] = "items"  # the field with what is a row each as CSV

    @classmethod
    def of(cls, record: object, **fields: Any) -> Self:
        """The schema of a record: fields that are not passed are the record's attributes of the same name."""
        rest = {name: getattr(record, name) for name in cls.model_fields if name not in fields}
        return cls.model_validate({**rest, **fields}, from_attributes=True)


# From a `Commit`: the index of a commit that is not ordered yet is null.
PublishedPosition = Annotated[int | None, BeforeValidator(lambda value: None if value == UNORDERED_POSITION else value)]


class CommitSchema(Schema):
    """A commit that has results."""

    hash: str
    date: datetime
    """When it was committed, UTC."""
    subject: str | None
    author: str | None
    position: PublishedPosition
    """Index in the project's order of commits that have results; null until the commit is ordered."""


class SeriesSchema(Schema):
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
    better: Better
    machine: str
    environment: str
    role: Literal["ours", "baseline", "canary"]
    """A baseline is a rival's; a canary is fixed work that no commit changes."""
    is_judged: bool
    """Whether changes of this metric are verdicts."""
    is_listed: bool
    """Whether the project's benchmarks still have it."""
    measured_by_asv: bool
    """False of a series that was imported from another tool's file."""

    @model_validator(mode="before")
    @classmethod
    def _of_series(cls, value: Any) -> Any:
        """The fields of a `Series` record."""
        if not isinstance(value, Series):
            return value
        return {
            **{name: getattr(value, name) for name in ("key", "benchmark", "workload", "implementation")},
            **{name: getattr(value, name) for name in ("machine", "environment")},
            **{name: getattr(value.metric, name) for name in ("unit", "better", "is_judged")},
            "parameters": dict(value.parameters),
            "metric": value.metric.name,
            "role": "canary" if value.is_control else "baseline" if value.is_baseline else "ours",
            "is_listed": value.listed,
            "measured_by_asv": value.is_from_asv,
        }

    @property
    def metric_record(self) -> Metric:
        """The metric of that name and unit."""
        return metric(self.metric, self.unit)

    @property
    def suite(self) -> str:
        """The benchmark without its method: "benchmarks.rope.Rope"."""
        return self.benchmark.rpartition(".")[0]

    @property
    def title(self) -> str:
        """Benchmark and parameter values on one line."""
        values = ", ".join(self.parameters.values())
        return f"{self.benchmark}({values})" if values else self.benchmark


def first_fault(error: ValueError) -> str:
    """The error in one line; of a ValidationError its first fault, such as "pattern: is too long"."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"


def series_schema(series: Series) -> SeriesSchema:
    return SeriesSchema.model_validate(series)
