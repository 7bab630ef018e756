"""Builder of a result file's record from the values of one commit on one machine.

For formats that state metric, unit and parameters themselves.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..model.result_file import LATEST_MS, BenchmarkSpec, Entry, ResultFile, Value, storable, storable_name
from ..model.series import Status
from .asv import machine_details, some_problems
from .import_limits import (
    BENCHMARK_COMBINATIONS,
    BENCHMARK_PARAMETERS,
    FILE_BENCHMARKS,
    FILE_SAMPLES,
    FILE_VALUES,
    VALUE_SAMPLES,
)
from .input_files import BeyondLimitError, BrokenFileError, check_commit


class ResultBuilder:
    """Collects values; `result` returns the record."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], Value]] = {}
        self._listed: dict[str, BenchmarkSpec] = {}
        self._problems: list[str] = []
        self._count = self._samples = 0

    def add(self, benchmark: str, listed: BenchmarkSpec, value: Value) -> None:
        """Add a benchmark's value. Repeated values, and names that cannot be stored, are left out with a note.

        Raises BeyondLimitError if the file exceeds a limit.
        """
        if len(value.parameters) > BENCHMARK_PARAMETERS:
            count = f"{len(value.parameters):,} parameters"
            self.note(f"{benchmark[:200]!a}: {count}; the limit of one benchmark is {BENCHMARK_PARAMETERS}")
            return
        if not storable_name(benchmark) or not all(map(storable, (*listed.parameter_names, *value.parameters))):
            self.note(f"{benchmark[:200]!a}: a name or parameter that cannot be stored")
            return
        self._listed.setdefault(benchmark, listed)
        known = self._values.setdefault(benchmark, {})
        if value.parameters in known:
            self.note(f"{benchmark}({', '.join(value.parameters)[:200]}): appears twice; the first value counts")
            return
        self._count += 1
        self._samples += len(value.samples)
        for what, number, most in (
            ("benchmarks", len(self._values), FILE_BENCHMARKS),
            ("values", self._count, FILE_VALUES),
            ("samples", self._samples, FILE_SAMPLES),
            (f"values of {benchmark[:200]}", len(known) + 1, BENCHMARK_COMBINATIONS),
        ):
            if number > most:
                raise BeyondLimitError(f"more than {most:,} {what}, the limit of one file: give it in several files")
        known[value.parameters] = value

    def note(self, problem: str) -> None:
        """Add a problem to the record."""
        self._problems.append(problem)

    def result(
        self,
        *,
        commit: str,
        date_ms: int,
        environment: str,
        machine: str,
        details: Mapping[str, Any],
        started_ms: int | None,
    ) -> ResultFile:
        """The record. Raises BrokenFileError if it has no value, or a name or date that cannot be stored."""
        if not self._values:
            why = f" can be read; {self._problems[0]}" if self._problems else ""
            raise BrokenFileError(f"no measured benchmark{why}")
        commit = check_commit(commit, "the commit")
        for name in (environment, machine):
            if not storable_name(name):
                raise BrokenFileError(f"a name that cannot be stored: {name[:200]!a}")
        if not 0 <= date_ms <= LATEST_MS:
            raise BrokenFileError(f"the commit's date is {date_ms} milliseconds after 1970; expected a time until 9999")
        if started_ms is not None and not 0 <= started_ms <= LATEST_MS:
            started_ms = None
        return ResultFile(
            commit=commit,
            date_ms=date_ms,
            environment=environment,
            machine=machine,
            details=machine_details(details),
            entries=tuple(_entry(name, started_ms, tuple(values.values())) for name, values in self._values.items()),
            problems=some_problems(self._problems),
            listed=self._listed,
        )


def measured(
    parameters: tuple[str, ...],
    raw: Any,
    *,
    quartiles: tuple[Any, Any] = (None, None),
    count: int | None = None,
    samples: Sequence[Any] = (),
) -> Value:
    """A measured value; INVALID if `raw` is not a finite number.

    The quartiles are those of the samples if there are any, else `quartiles`.
    """
    number = finite(raw)
    if number is None:
        return Value(parameters=parameters, status=Status.INVALID, reason=f"not a finite number: {str(raw)[:80]!a}")
    numbers = tuple(sample for sample in map(finite, samples) if sample is not None)
    low, high = _quartiles(sorted(numbers)) if numbers else map(finite, quartiles)
    if count is not None and not 0 <= count <= VALUE_SAMPLES:
        count = None
    return Value(
        parameters=parameters,
        status=Status.OK,
        value=number,
        q25=low,
        q75=high,
        sample_count=len(numbers) or count,
        samples=numbers,
    )


def _quartiles(ordered: Sequence[float]) -> tuple[float, float]:
    """Quartiles by linear interpolation, type 7 of Hyndman and Fan (1996), numpy's default."""

    def at(share: float) -> float:
        index = share * (len(ordered) - 1)
        before, weight = int(index), index % 1
        return ordered[before] * (1 - weight) + ordered[min(before + 1, len(ordered) - 1)] * weight

    return at(0.25), at(0.75)


def not_measured(parameters: tuple[str, ...], status: Status, reason: str) -> Value:
    """A value without a number, with the reason."""
    text = reason.strip()[:500] if storable(reason) else ascii(reason)[:500]
    return Value(parameters=parameters, status=status, reason=text or "no reason was recorded")


def finite(raw: Any) -> float | None:
    """A finite number, from a number or a number's text; None from anything else."""
    if not isinstance(raw, (int, float, str)) or isinstance(raw, bool):
        return None
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _entry(benchmark: str, started_ms: int | None, values: tuple[Value, ...]) -> Entry:
    content = repr([(value.parameters, value.status.value, value.value, value.samples) for value in values])
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return Entry(
        benchmark=benchmark, started_ms=started_ms, duration_s=0.0, mark=f"{started_ms or 0}-{digest}", values=values
    )
