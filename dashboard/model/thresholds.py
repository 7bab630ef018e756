"""Thresholds of changes, relative and absolute, and the rules of a policy that set them."""

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

# Absolute thresholds.

WANTED = 'an amount with its unit such as "0.5 us", "64 KiB" or "2 registers"'
_BYTES = {"b": 1, "bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_COUNTS = {"registers", "instructions", "launches", "barriers", "cycles"}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([^\s\d\0][^\d\0]*)")


@dataclass(frozen=True, slots=True)
class Floor:
    """Smallest absolute change that matters, in a unit as written in the policy."""

    amount: float
    unit: str

    def of(self, metric: Metric) -> float | None:
        """The floor in the metric's unit; None if it is of another quantity."""
        seconds = in_seconds(self.amount, self.unit)
        if seconds is not None:
            of_one = in_seconds(1.0, metric.unit)
            return seconds / of_one if of_one else None
        if self.unit.lower() in _BYTES:
            return self.amount * _BYTES[self.unit.lower()] if metric.unit.lower() in {"b", "bytes"} else None
        return self.amount if self.unit.lower() == metric.unit.lower() else None

    @property
    def is_of_known_unit(self) -> bool:
        """Whether the unit is a time, bytes or a count that warpwatch records; projects may have other units."""
        return in_seconds(1.0, self.unit) is not None or self.unit.lower() in _BYTES.keys() | _COUNTS

    def __str__(self) -> str:
        return f"{Decimal(repr(self.amount)).normalize():f} {self.unit}"  # `parse_floor` reads it


def parse_floor(value: Any) -> Floor:
    """Parse "0.5 us". Raises ValueError without amount or unit."""
    if isinstance(value, Floor):
        return value
    match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not math.isfinite(float(match[1])):
        raise ValueError("no amount with a unit")
    return Floor(amount=float(match[1]), unit=match[2])


FloorValue = Annotated[
    Floor, PlainValidator(parse_floor), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": ["0.5 us"]})
]


# Base of all tables of warpwatch.toml.


class Table(BaseModel):
    """A table: frozen, without unknown keys. Error messages quote a field's description."""

    # strict: "0.02" in quotes is no number, and true is not 1. TOML has inf and nan.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# Lists as values in warpwatch.toml: TOML has arrays, a frozen table has tuples.

Item = TypeVar("Item")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tuple_of_words(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _tuple(value)


Word = Annotated[str, Field(pattern=r"^[^\s\x00]([^\n\x00]*[^\s\x00])?$")]
"""Without NUL, which databases cannot store."""

_Given = Word | list[Word]

TupleOf = Annotated[tuple[Item, ...], BeforeValidator(_tuple)]
"""An array, or [[tables]] of one name."""

Words = Annotated[tuple[Word, ...], BeforeValidator(_tuple_of_words, json_schema_input_type=_Given)]
"""`"rope"` or `["rope", "rms_norm"]`: one word needs no brackets."""


# `[[rule]]`: thresholds and owners of some series.

_GLOBS = 'a glob or several, such as "rope*" or ["rope", "*attention*"]'
_MATCHES = ("kernel", "benchmark", "metric", "machine", "parameters")
_STATES = ("threshold", "floor", "blocks", "owners", "in_means")


class LimitRule(Table):
    """Settings of the series that match every given key; one of several globs is enough."""

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
    in_means: bool | None = Field(
        default=None, description="true or false: whether geometric means over kernels count the series"
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if not any(getattr(self, key) for key in _MATCHES):
            raise ValueError(f'matches by nothing; give one of {", ".join(_MATCHES)} (all series: benchmark = "*")')
        if not self.stated:
            raise ValueError(f"states nothing; give one of {', '.join(_STATES)}")
        return self

    @property
    def stated(self) -> dict[str, Any]:
        """Settings of the rule, by key."""
        return {key: value for key in _STATES if (value := getattr(self, key)) is not None}

    def matches(self, series: Series, workload: Workload | None) -> bool:
        """Whether the rule applies to a series with this workload, if known."""
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
    """Whether a glob matches; without globs everything does."""
    return not globs or any(fnmatchcase(value, glob) for glob in globs)


class GeneralLimits(Table):
    """Thresholds of all series without a matching rule."""

    threshold: float | None = Field(
        default=None, gt=0, lt=1, description="the smallest relative change that matters, a share such as 0.02"
    )
    floor: FloorValue | None = Field(default=None, description=WANTED)
    blocks: bool = Field(
        default=True, description="true or false: whether a regression fails the check, or is only reported"
    )


class LimitRules(GeneralLimits):
    """Thresholds with rules, resolved for each series when it is compared."""

    rules: TupleOf[LimitRule] = Field(default=(), description="a list of rules, of which the last that matches counts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Thresholds of one series."""

    threshold: float  # smallest relative change that matters
    floor: float = 0.0  # smallest absolute one, in the unit of the metric
    blocks: bool = True  # whether its regression fails a check, or is only reported
    owners: tuple[str, ...] = ()
    in_means: bool = True  # whether geometric means over kernels count it

    def min_relative_change(self, base: float | None, head: float | None) -> float:
        """Smallest relative change that counts: the threshold, or the floor over `base` if that is more.

        From zero the floor alone decides; infinite if the change is below it.
        """
        if base:
            return max(self.threshold, self.floor / abs(base))
        return math.inf if head is not None and abs(head) < self.floor else self.threshold

    def counts(self, before: float, after: float, change: float) -> bool:
        """Whether a relative change between two levels counts."""
        return abs(change) >= self.min_relative_change(before, after)


LimitsOf = Callable[[Series], Limits]


def series_limits(
    stated: LimitRules, workloads: Workloads, *, threshold: float, threshold_of_all: float | None = None
) -> LimitsOf:
    """Resolver of each series' thresholds: of every key, the last matching rule that has it, else the general setting.

    The defaults are `threshold`, no floor, blocking, no owners, counted in means. `threshold_of_all` overrides every
    relative threshold.
    """

    def limits(series: Series) -> Limits:
        workload = workload_of(series, workloads)
        settings: dict[str, Any] = {
            "threshold": stated.threshold or threshold,
            "floor": stated.floor,
            "blocks": stated.blocks,
            "owners": (),
            "in_means": True,
        }
        for rule in stated.rules:
            if rule.matches(series, workload):
                settings |= rule.stated
        return Limits(
            threshold=threshold_of_all or settings["threshold"],
            floor=_floor(settings["floor"], series),
            blocks=settings["blocks"],
            owners=settings["owners"],
            in_means=settings["in_means"],
        )

    return limits


def _floor(floor: Floor | None, series: Series) -> float:
    """0 without a floor of this quantity."""
    return (floor.of(series.metric) or 0.0) if floor is not None else 0.0


class StatedLimits(LimitRules):
    """The rules of a project's policy, with their source."""

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
        """Drop owners: pages do not need them, and they may be addresses of people."""
        judging = (rule for rule in rules if rule.stated.keys() - {"owners"})
        return tuple(rule.model_copy(update={"owners": None}) for rule in judging)

    @property
    def name(self) -> str:
        """Display name: "warpwatch.toml of 1234abcd"."""
        return f"{self.source} of {self.commit[:8]}" if self.commit else self.source
