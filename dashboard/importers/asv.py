"""Reader of asv result files (formats 1 and 2); values are columns."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..model.result_file import LATEST_MS, ResultFile, storable, storable_name
from ..model.series import Status
from ..store.chunks import Floats, Ints
from ..store.packed_entries import EntryHead, PackedEntries, number_reasons
from ..store.statements import STATUS_CODES
from .import_limits import (
    BENCHMARK_COMBINATIONS,
    BENCHMARK_PARAMETERS,
    FILE_BENCHMARKS,
    FILE_PROBLEMS,
    FILE_SAMPLES,
    FILE_VALUES,
    VALUE_SAMPLES,
)
from .input_files import BeyondLimitError, BrokenFileError, check_commit, read_json


class ValueLists:
    """Lists of the raw values of a file, converted to columns at once: a file has thousands."""

    def __init__(self) -> None:
        self._results: list[Any] = []
        self._q25: list[Any] = []
        self._q75: list[Any] = []
        self._repeat: list[Any] = []
        self._kept: list[int] = []
        self._samples: list[Any] = []

    def add(
        self,
        result: Sequence[Any],
        q25: Sequence[Any] | None,
        q75: Sequence[Any] | None,
        repeat: Sequence[Any] | None,
        samples: Sequence[Any] | None,
    ) -> int:
        """Add a benchmark's columns, if present; return the index of its first value."""
        start, absent = len(self._results), [None] * len(result)
        self._results.extend(result)
        self._q25.extend(q25 or absent)
        self._q75.extend(q75 or absent)
        self._repeat.extend(repeat or absent)
        if samples is None:
            self._kept.extend([0] * len(result))
            return start
        for raw in samples:
            finite = raw if isinstance(raw, list) else []
            if not all(type(sample) is float for sample in finite):
                finite = [number for number in map(as_float, finite) if number is not None and math.isfinite(number)]
            self._kept.append(len(finite))
            self._samples.extend(finite)
        return start

    @property
    def samples(self) -> int:
        """Number of samples so far."""
        return len(self._samples)

    def packed(self) -> PackedEntries:
        """The columns, without heads. A value that is not a finite number has a status and a reason."""
        value = _floats(self._results)
        status = np.zeros(len(value), dtype=np.int64)
        reason = np.zeros(len(value), dtype=np.int64)
        reasons: tuple[str, ...] = ()
        bad = np.flatnonzero(~np.isfinite(value))
        if len(bad):
            absent = [_absence(self._results[number]) for number in bad.tolist()]
            status[bad] = [STATUS_CODES[each] for each, _ in absent]
            reason[bad], reasons = number_reasons(text for _, text in absent)
        kept, samples = np.array(self._kept, dtype=np.int64), np.array(self._samples, dtype=np.float64)
        if kept[bad].any():
            samples = samples[np.repeat(status == 0, kept)]
            kept[bad] = 0
        counts = _integers(self._repeat)
        counts[kept > 0] = kept[kept > 0]
        counts[bad] = -1
        q25, q75 = (_floats(column) for column in (self._q25, self._q75))
        for column in (q25, q75):
            column[~np.isfinite(column)] = np.nan
        for column in (value, q25, q75):
            column[bad] = np.nan
        return PackedEntries(
            heads=(),
            value=value,
            q25=q25,
            q75=q75,
            count=counts,
            status=status,
            reason=reason,
            reasons=reasons,
            kept=kept,
            samples=samples,
        )


def as_float(raw: Any) -> float | None:
    """A float from a number or a number's text ("1.5e-6", "NaN"); None from anything else."""
    if isinstance(raw, (int, float, str)):
        try:
            return float(raw)
        except (ValueError, OverflowError):
            return None
    return None


def as_integer(raw: Any) -> int | None:
    """The whole part of a finite number or its text; None from anything else."""
    value = as_float(raw)
    return None if value is None or not math.isfinite(value) else int(value)


def _absence(raw: Any) -> tuple[Status, str]:
    """Status and reason of a value that is not a finite number."""
    if raw is None:
        return Status.FAILED, "the benchmark failed"
    value = as_float(raw)
    if value is None:
        shown = str(raw)[:80].replace("\x00", "").encode("utf-8", "replace").decode()
        return Status.INVALID, f"not a number: {shown}"
    if math.isnan(value):
        return Status.UNAVAILABLE, "not available here"
    return Status.INVALID, "not finite"


def _floats(raw: list[Any]) -> Floats:
    """Floats, with NaN for anything that is not a number."""
    try:
        column = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        column = None
    if column is None or column.ndim != 1:
        numbers = map(as_float, raw)
        column = np.array([math.nan if number is None else number for number in numbers], dtype=np.float64)
    return column


def _integers(raw: list[Any]) -> Ints:
    """Counts, with -1 for anything that is not a count."""
    column = _floats(raw)
    column[~((column >= 0) & (column <= VALUE_SAMPLES))] = -1
    return column.astype(np.int64)


# A result file is `<machine>/<commit>-<environment>.json`. asv writes Python's JSON: bare NaN and Infinity occur. A row
# omits empty trailing columns, `result` is null if every point failed, and a value is null where one point failed and
# NaN where the benchmark does not apply.

_MOST_DETAILS, _LONGEST_DETAIL = 100, 2_000  # facts of a machine; characters
_MOST_COLUMNS = 64  # of a row; asv writes eight to twelve


def read_result(text: bytes, file_name: str) -> ResultFile:
    """Read a result file's text; `file_name` gives the environment if the text does not.

    Raises BrokenFileError if it is not JSON, has no commit, date or results, or has too many values.
    """
    data = read_json(text)
    if not isinstance(data, dict):
        raise BrokenFileError(f"a {type(data).__name__} where asv writes an object")
    for key, kind in (("commit_hash", str), ("results", dict)):
        if not isinstance(data.get(key), kind):
            raise BrokenFileError(f"no {key!r}, which every asv result has")
    commit = check_commit(data["commit_hash"], "commit_hash")
    if len(data["results"]) > FILE_BENCHMARKS:
        raise BeyondLimitError(
            f"{len(data['results']):,} benchmarks; the limit of one file is {FILE_BENCHMARKS:,}: give them in several"
        )
    date_ms = as_integer(data.get("date"))
    if date_ms is None or not 0 <= date_ms <= LATEST_MS:
        raise BrokenFileError(f"date is {str(data.get('date'))[:40]!r}; expected milliseconds since 1970")
    raw = data.get("params")
    params = raw if isinstance(raw, dict) else {}
    environment = str(data.get("env_name") or file_name.removesuffix(".json").partition("-")[2] or "unknown")
    machine = str(params["machine"]) if params.get("machine") else None
    for name in (environment, machine or "unknown"):
        if not storable_name(name):
            raise BrokenFileError(f"a name that cannot be stored: {name[:40]!a}")
    lists = ValueLists()
    drafts, problems = [], []
    for benchmark, columns in _rows(data):
        try:
            drafts.append(_draft(benchmark, columns, lists, _known))
        except (BrokenFileError, TypeError, ValueError) as error:
            name = benchmark if storable_name(benchmark) else ascii(benchmark[:40])
            problems.append(f"{name[:200]}: {error}")
        if drafts and drafts[-1].end > FILE_VALUES:
            raise BeyondLimitError(f"more than {FILE_VALUES:,} values, the limit of one file: give it in several files")
        if lists.samples > FILE_SAMPLES:
            raise BeyondLimitError(f"more than {FILE_SAMPLES:,} samples, the limit of one file")
    if problems and not drafts:
        raise BrokenFileError(f"none of its benchmarks can be read; {problems[0]}")
    packed = lists.packed()
    return ResultFile(
        commit=commit,
        date_ms=date_ms,
        environment=environment,
        machine=machine,
        details=machine_details(params),
        entries=replace(packed, heads=tuple(_heads(drafts, packed))),
        problems=some_problems(problems),
    )


def _rows(data: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Each benchmark with the columns `_COLUMNS`, from either format."""
    names = data.get("result_columns")
    if isinstance(names, list) and len(names) > _MOST_COLUMNS:
        raise BrokenFileError(f"{len(names)} result_columns; expected at most {_MOST_COLUMNS}")
    column_of = {name: n for n, name in enumerate(names) if isinstance(name, str)} if isinstance(names, list) else {}
    width = len(names) if isinstance(names, list) else 0
    chosen = itemgetter(*(column_of.get(name, width) for name in _COLUMNS))
    started = data.get("started_at")
    started = started if isinstance(started, dict) else {}
    for benchmark, row in data["results"].items():
        if isinstance(row, list) and column_of:
            yield benchmark, chosen([*row[:width], *[None] * (width + 1 - min(len(row), width))])
        elif isinstance(row, dict):  # format 1: {"result": [...], "params": [...], "stats": [...]}
            stats = row.get("stats")
            stats = [each if isinstance(each, dict) else {} for each in (stats if isinstance(stats, list) else [stats])]
            q25, q75, repeat = ([each.get(key) for each in stats] for key in ("q_25", "q_75", "repeat"))
            yield (
                benchmark,
                [
                    row.get("result"),
                    row.get("params"),
                    started.get(benchmark),
                    None,
                    q25,
                    q75,
                    repeat,
                    row.get("samples"),
                ],
            )
        else:  # format 1, a benchmark without parameters: the bare number
            yield benchmark, [row, None, started.get(benchmark), None, None, None, None, None]


def machine_details(facts: Mapping[Any, Any]) -> dict[str, str]:
    """A file's facts of its machine, as texts that can be stored and shown."""
    known = [(str(key), str(value)) for key, value in facts.items() if value not in (None, "")]
    return {k: v for k, v in known[:_MOST_DETAILS] if len(k) + len(v) <= _LONGEST_DETAIL and storable(k + v)}


def some_problems(problems: Sequence[str]) -> tuple[str, ...]:
    """The first `FILE_PROBLEMS` problems, and the number of the rest."""
    more = len(problems) - FILE_PROBLEMS
    return tuple(problems) if more <= 0 else (*problems[:FILE_PROBLEMS], f"and {more:,} more parts were left out")


class _Draft(NamedTuple):
    """An entry whose values are in the lists, not yet in columns."""

    benchmark: str
    started_ms: int | None
    duration_s: float
    start: int
    end: int
    choices: tuple[tuple[str, ...], ...]
    parameters: bytes


def _draft(benchmark: str, columns: Sequence[Any], lists: ValueLists, known: "_KnownParameters") -> _Draft:
    result, params, started, duration, q25, q75, repeat, samples = columns
    choices, parameters, count = known.parameters_of(benchmark, params or [])
    if result is not None and not isinstance(result, list):
        result = [result]
    if count > BENCHMARK_COMBINATIONS:
        raise BeyondLimitError(
            f"{count:,} parameter combinations; the limit of one benchmark is {BENCHMARK_COMBINATIONS:,}"
        )
    if result is not None and len(result) != count:
        number = "no" if result is None else len(result)
        raise BrokenFileError(f"{number} values for {count} parameter combinations")
    result = [None] * count if result is None else result
    started_ms = started if type(started) is int else as_integer(started)
    if started_ms is not None and not 0 <= started_ms <= LATEST_MS:
        started_ms = None
    start = lists.add(
        result, _of_length(q25, count), _of_length(q75, count), _of_length(repeat, count), _of_length(samples, count)
    )
    return _Draft(benchmark, started_ms, _duration_s(duration), start, start + count, choices, parameters)


def _heads(drafts: Sequence[_Draft], values: PackedEntries) -> Iterator[EntryHead]:
    """The entries with their fingerprints: start, and digest of parameters and values."""
    value, status = values.value.tobytes(), values.status.tobytes()
    for benchmark, started_ms, duration_s, start, end, choices, parameters in drafts:
        mine = slice(8 * start, 8 * end)
        digest = hashlib.blake2b(parameters + value[mine] + status[mine], digest_size=6).hexdigest()
        yield EntryHead(benchmark, started_ms, duration_s, f"{started_ms or 0}:{digest}", start, end, choices)


class _KnownParameters:
    """Cache of benchmarks' checked parameters as text: the next file has the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[Any], _Parameters]] = {}
        self._alike: dict[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]] = {}  # interned

    def parameters_of(self, benchmark: str, params: Any) -> "_Parameters":
        """The choices of each parameter as text, their serialisation, and the number of combinations."""
        before = self._known.get(benchmark)
        if before is not None and before[0] == params:
            return before[1]
        if not isinstance(params, list) or not all(isinstance(choices, list) for choices in params):
            raise BrokenFileError("params are not lists")
        if len(params) > BENCHMARK_PARAMETERS:
            raise BeyondLimitError(f"{len(params):,} parameters; the limit of one benchmark is {BENCHMARK_PARAMETERS}")
        choices = tuple([tuple(["nan" if choice == "NaN" else str(choice) for choice in each]) for each in params])
        serialised = repr(choices).encode("utf-8", "surrogatepass")
        if not storable_name(benchmark) or not all(storable(choice) for each in choices for choice in each):
            raise BrokenFileError("a name or parameter that cannot be stored: too long, or with control characters")
        if max(len(self._known), len(self._alike)) > _MOST_KNOWN:
            self._known.clear()
            self._alike.clear()
        # Interned, because many benchmarks have the same: pickling them for another process writes it once.
        parameters = self._alike.setdefault(choices, choices), serialised, math.prod(map(len, choices))
        if not all(type(choice) is str for each in params for choice in each):
            return parameters  # 1, True and 1.0 are equal but not the same parameter
        self._known[benchmark] = (params, parameters)
        return parameters


_Parameters = tuple[tuple[tuple[str, ...], ...], bytes, int]


def _duration_s(raw: Any) -> float:
    seconds = raw if type(raw) is float else as_float(raw)
    return seconds if seconds is not None and 0 <= seconds <= LATEST_MS / 1000 else 0.0


def _of_length(column: Any, count: int) -> Sequence[Any] | None:
    """A per-combination column; None if absent or of another length."""
    return column if isinstance(column, list) and len(column) == count else None


_COLUMNS = ("result", "params", "started_at", "duration", "stats_q_25", "stats_q_75", "stats_repeat", "samples")
_MOST_KNOWN = 50_000  # benchmarks
_known = _KnownParameters()  # a cache of this process
