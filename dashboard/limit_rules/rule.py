"""`[[rule]]`: other limits for some series, and who answers for them."""

from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import Field, model_validator

from warpwatch.dashboard.limit_rules.floor import WANTED, FloorValue
from warpwatch.dashboard.limit_rules.table import Table
from warpwatch.dashboard.limit_rules.words import Word, Words
from warpwatch.dashboard.naming import kernel_of
from warpwatch.dashboard.store.records import Series, Workload

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
