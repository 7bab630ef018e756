"""Queries of series by words and parameters: `attention dtype=fp16 head_dim=64,128 seq_kv>=4096`."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from .naming import kernel_of
from .series import Series, Workload

_CONDITION = re.compile(r"([A-Za-z_]\w*)(!=|>=|<=|=|>|<)(.+)")
_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

Facts = Mapping[str, str]  # of a series: lower-case values by name, as `facts_of` gives them


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition: a name, a relation, and values of which one must match."""

    name: str
    relation: str  # = != >= <= > <
    values: tuple[str, ...]  # lower case; * and ? are wildcards of = and !=
    term: str  # as written, lower case

    def matches(self, facts: Facts) -> bool:
        """Whether the series meets the condition; a series without the parameter meets none."""
        value = facts.get(self.name)
        if value is None:
            return False
        if compare := _ORDERS.get(self.relation):
            return any(_ordered(compare, value, limit) for limit in self.values)
        return any(fnmatchcase(value, pattern) for pattern in self.values) is (self.relation == "=")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Words that must occur in a series' name, and conditions that it must meet."""

    words: tuple[str, ...]  # lower case
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split at blanks; NAME=VALUE is a condition, everything else a word."""
        words, conditions = [], []
        for term in text.lower().split():
            found = _CONDITION.fullmatch(term)
            if found is None:
                words.append(term)
            else:
                values = tuple(value for value in found[3].split(",") if value)
                conditions.append(Condition(name=found[1], relation=found[2], values=values, term=term))
        return cls(words=tuple(words), conditions=tuple(conditions))

    def __bool__(self) -> bool:
        return bool(self.words or self.conditions)

    def matches(self, series: Series, workload: Workload | None, text: str | None = None) -> bool:
        """Whether the series has every word and meets every condition, or is named like it: names may contain "=".

        `text`: the series' `text_of`, if known.
        """
        if not self:
            return True
        text = text_of(series, workload) if text is None else text
        if not all(word in text for word in self.words):
            return False
        if not self.conditions:
            return True
        facts = facts_of(series, workload)
        return all(condition.matches(facts) or condition.term in text for condition in self.conditions)


def text_of(series: Series, workload: Workload | None) -> str:
    """What words are searched in: kernel, benchmark with its parameters, machine and environment; lower case."""
    return f"{kernel_of(series, workload)} {series.title} {series.machine} {series.environment}".lower()


def facts_of(series: Series, workload: Workload | None) -> Facts:
    """What conditions are about: the names that identify a series, and its parameters."""
    facts: dict[str, Any] = dict(series.parameters)
    if workload is not None:
        facts |= {**workload.parameters, "dtype": workload.dtype}
    facts |= {
        "kernel": kernel_of(series, workload),
        "benchmark": series.benchmark,
        "machine": series.machine,
        "environment": series.environment,
        "metric": series.metric.name,
        "workload": series.workload,
        "implementation": series.implementation,
    }
    return {name.lower(): str(value).lower() for name, value in facts.items() if value is not None}


def _ordered(compare: Callable[[float, float], bool], value: str, limit: str) -> bool:
    """Whether two numbers are so ordered; False for anything else."""
    try:
        return compare(float(value), float(limit))
    except ValueError:
        return False
