"""Thresholds: what a change of a series must be to count, and the rules that state it."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from .metric import Metric
from .naming import kernel_of
from .quantities import in_seconds
from .result_file import LONGEST_NAME
from .series import Series, Workload, Workloads, workload_of

# An absolute floor: the change below which nobody cares, whatever share of the value it is.

WANTED = 'an amount with its unit such as "0.5 us", "64 KiB" or "2 registers"'
_BYTES = {"b": 1, "bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_COUNTS = {"registers", "instructions", "launches", "barriers", "cycles"}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([^\s\d\0][^\d\0]*)")


@dataclass(frozen=True, slots=True)
class Floor:
    """So much, in a unit as people write it."""

    amount: float
    unit: str

    def of(self, metric: Metric) -> float | None:
        """In the unit that the metric is recorded in; None where it is a floor of something else."""
        seconds = in_seconds(self.amount, self.unit)
        if seconds is not None:
            of_one = in_seconds(1.0, metric.unit)
            return seconds / of_one if of_one else None
        if self.unit.lower() in _BYTES:
            return self.amount * _BYTES[self.unit.lower()] if metric.unit.lower() in {"b", "bytes"} else None
        return self.amount if self.unit.lower() == metric.unit.lower() else None

    @property
    def is_of_known_unit(self) -> bool:
        """Whether it is a time, bytes or a count that warpwatch records; a project may have units of its own."""
        return in_seconds(1.0, self.unit) is not None or self.unit.lower() in _BYTES.keys() | _COUNTS

    def __str__(self) -> str:
        return f"{Decimal(repr(self.amount)).normalize():f} {self.unit}"  # as it can be read again


def parse_floor(value: Any) -> Floor:
    """Raises ValueError for what has no amount or no unit."""
    if isinstance(value, Floor):
        return value
    found = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not math.isfinite(float(found[1])):
        raise ValueError("no amount with a unit")
    return Floor(amount=float(found[1]), unit=found[2])


FloorValue = Annotated[
    Floor, PlainValidator(parse_floor), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": ["0.5 us"]})
]


# What all tables of warpwatch.toml have in common, be they read from the file or from what was kept of it.


class Table(BaseModel):
    """A table: frozen, and without keys that nobody reads. A field's description says what was wanted instead."""

    # strict: "0.02" in quotes is no share, and true is not 1. TOML knows inf and nan, which are no amounts.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# Lists as values in warpwatch.toml: TOML has arrays, a frozen table has tuples.

Each = TypeVar("Each")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tuple_of_words(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _tuple(value)


Word = Annotated[str, Field(pattern=r"^[^\s\x00]([^\n\x00]*[^\s\x00])?$")]
"""Without a NUL, which no database takes."""

_Given = Word | list[Word]

Listed = Annotated[tuple[Each, ...], BeforeValidator(_tuple)]
"""An array, or [[tables]] of one name."""

Words = Annotated[tuple[Word, ...], BeforeValidator(_tuple_of_words, json_schema_input_type=_Given)]
"""`"rope"` or `["rope", "rms_norm"]`: one word needs no brackets."""


# `[[rule]]`: other limits for some series, and who answers for them.

_GLOBS = 'a glob or several, such as "rope*" or ["rope", "*attention*"]'
_MATCHES = ("kernel", "benchmark", "metric", "machine", "parameters")
_STATES = ("threshold", "floor", "blocks", "owners")


class LimitRule(Table):
    """Series that match every key given here get what is stated here; of several globs one is enough."""

    kernel: Words = Field(
        default=(), description=f"{_GLOBS}: the operator, or the benchmark's module where none is known"
    )
    benchmark: Words = Field(default=(), description=f"{_GLOBS}: asv's full name")
    metric: Words = Field(default=(), description=f"{_GLOBS}: latency, peak_memory, registers …")
    machine: Words = Field(default=(), description=_GLOBS)
    parameters: dict[Word, Words] = Field(
        default_factory=dict, description='a table of globs such as {dtype = "fp16", implementation = "warpwatch"}'
    )
    threshold: float | None = Field(default=None, gt=0, lt=1, description="a share such as 0.02")
    floor: FloorValue | None = Field(default=None, description=WANTED)
    blocks: bool | None = Field(default=None, description="true or false")
    owners: Words | None = Field(default=None, description='who answers, such as ["@org/kernels", "ann@example.org"]')

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if not any(getattr(self, key) for key in _MATCHES):
            raise ValueError(f'matches by nothing; give one of {", ".join(_MATCHES)} (all series: benchmark = "*")')
        if not self.stated:
            raise ValueError(f"states nothing; give one of {', '.join(_STATES)}")
        return self

    @property
    def stated(self) -> dict[str, Any]:
        """What it states, by key."""
        return {key: value for key in _STATES if (value := getattr(self, key)) is not None}

    def matches(self, series: Series, workload: Workload | None) -> bool:
        """Whether it speaks of a series; `workload` is what the suite told of its case, where it did."""
        return (
            _any(self.kernel, kernel_of(series, workload))
            and _any(self.benchmark, series.benchmark)
            and _any(self.metric, series.metric.name)
            and _any(self.machine, series.machine)
            and self._has_parameters(series, workload)
        )

    def _has_parameters(self, series: Series, workload: Workload | None) -> bool:
        values: dict[str, Any] = {}
        if workload is not None:
            values |= {**workload.parameters, "dtype": workload.dtype, "operator": workload.operator}
        values |= dict(series.parameters)
        return all(name in values and _any(globs, str(values[name])) for name, globs in self.parameters.items())


def _any(globs: tuple[str, ...], value: str) -> bool:
    """Without globs everything goes."""
    return not globs or any(fnmatchcase(value, glob) for glob in globs)


class GeneralLimits(Table):
    """Of all series, where no rule says otherwise."""

    threshold: float | None = Field(
        default=None, gt=0, lt=1, description="the smallest relative change that matters, a share such as 0.02"
    )
    floor: FloorValue | None = Field(default=None, description=WANTED)
    blocks: bool = Field(
        default=True, description="true or false: whether a regression fails the check, or is only told"
    )


class LimitRules(GeneralLimits):
    """By these each series is resolved when it is judged, so that benchmarks of tomorrow get theirs as well."""

    rules: Listed[LimitRule] = Field(default=(), description="a list of rules, of which the last that matches counts")


# What a change of one series has to be to count, and whether it then stops anybody: what rules state by series.


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one series."""

    threshold: float  # smallest relative change that matters
    floor: float = 0.0  # smallest absolute one, in the unit of the metric
    blocks: bool = True  # whether its regression fails a check, or is only told
    owners: tuple[str, ...] = ()

    def min_relative_change(self, base: float | None, head: float | None) -> float:
        """The smallest relative change that counts from this level on: of a short call, the floor is a large share.

        From zero there is no share, and the floor alone decides; infinite where the change is below it.
        """
        if base:
            return max(self.threshold, self.floor / abs(base))
        return math.inf if head is not None and abs(head) < self.floor else self.threshold

    def counts(self, before: float, after: float, change: float) -> bool:
        """Whether a relative change from one level to another does."""
        return abs(change) >= self.min_relative_change(before, after)


LimitsOf = Callable[[Series], Limits]


# What rules say of one series.


def series_limits(
    stated: LimitRules, workloads: Workloads, *, threshold: float, threshold_of_all: float | None = None
) -> LimitsOf:
    """The limits of each series: of every key, the last rule that matches the series and states that key.

    What no rule states is what holds for all, and what nobody states the default: `threshold`, no floor, blocking,
    nobody's. With `threshold_of_all` no rule is asked for a threshold.
    """

    def limits(series: Series) -> Limits:
        workload = workload_of(series, workloads)
        said: dict[str, Any] = {
            "threshold": stated.threshold or threshold,
            "floor": stated.floor,
            "blocks": stated.blocks,
            "owners": (),
        }
        for rule in stated.rules:
            if rule.matches(series, workload):
                said |= rule.stated
        return Limits(
            threshold=threshold_of_all or said["threshold"],
            floor=_floor(said["floor"], series),
            blocks=said["blocks"],
            owners=said["owners"],
        )

    return limits


def _floor(floor: Floor | None, series: Series) -> float:
    """0 where there is none, or it is one of another quantity."""
    return (floor.of(series.metric) or 0.0) if floor is not None else 0.0


# What a project states of the changes that count, and where: which file, as which commit has it.


class StatedLimits(LimitRules):
    """The rules, and where they stand."""

    source: Annotated[Word, Field(max_length=LONGEST_NAME // 4)] = Field(
        description="the path of the file, such as warpwatch.toml"
    )
    commit: Annotated[str, Field(pattern="^([0-9a-f]{40}|[0-9a-f]{64})$")] | None = Field(
        default=None, description="the full hash of the commit that changed the file last; null: no repository has it"
    )
    committed: AwareDatetime = Field(description="when that was, or when the file was written")

    @field_validator("rules")
    @classmethod
    def _without_owners(cls, rules: tuple[LimitRule, ...]) -> tuple[LimitRule, ...]:
        """Whom rules name is no page's business, and may be addresses of people."""
        judging = (rule for rule in rules if rule.stated.keys() - {"owners"})
        return tuple(rule.model_copy(update={"owners": None}) for rule in judging)

    @property
    def name(self) -> str:
        """As pages and messages call it: "warpwatch.toml of 1234abcd"."""
        return f"{self.source} of {self.commit[:8]}" if self.commit else self.source
