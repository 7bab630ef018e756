"""One asv result file, read into records: `<machine>/<commit>-<environment>.json`, of asv's format 1 or 2.

asv writes Python's JSON: bare NaN and Infinity occur. A row's trailing columns are left out when empty, `result` is
null when every point failed, and a value is null where one point failed and NaN where the benchmark does not apply.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from warpwatch.dashboard.importers.asv_values import ValueLists, as_float, as_integer
from warpwatch.dashboard.store.incoming import LATEST_MS, ResultFile, storable, storable_name
from warpwatch.dashboard.store.packed import EntryHead, PackedEntries

# Of one file: five times the most that is known, and up to 1 GB of memory where all of their series are new. Its size
# is no measure of them: one null may stand for all combinations of a benchmark's parameters.
MOST_VALUES = 500_000


class BrokenFileError(Exception):
    """A file that cannot be understood; the message says what was seen."""


def read_result(text: bytes, file_name: str) -> ResultFile:
    """Reads a result file's text; `file_name` gives the environment where the text does not.

    Raises BrokenFileError if it is not JSON, lacks the commit, the date or the results, or has too many values.
    """
    data = _parse(text)
    if not isinstance(data, dict):
        raise BrokenFileError(f"a {type(data).__name__} where asv writes an object")
    for key, kind in (("commit_hash", str), ("results", dict)):
        if not isinstance(data.get(key), kind):
            raise BrokenFileError(f"no {key!r}, which every asv result has")
    commit = data["commit_hash"].lower()
    if not commit or len(commit) > 64:
        raise BrokenFileError(f"commit_hash is {commit[:70]!r}; wanted a hash of at most 64 characters")
    date_ms = as_integer(data.get("date"))
    if date_ms is None or not 0 <= date_ms <= LATEST_MS:
        raise BrokenFileError(f"date is {str(data.get('date'))[:40]!r}; wanted milliseconds since 1970")
    given = data.get("params")
    params = given if isinstance(given, dict) else {}
    environment = str(data.get("env_name") or file_name.removesuffix(".json").partition("-")[2] or "unknown")
    machine = str(params["machine"]) if params.get("machine") else None
    for name in (commit, environment, machine or "unknown"):
        if not storable_name(name):
            raise BrokenFileError(f"a name that no database takes: {name[:40]!a}")
    lists = ValueLists()
    drafts, problems = [], []
    for benchmark, columns in _rows(data):
        try:
            drafts.append(_draft(benchmark, columns, lists, _known))
        except (BrokenFileError, TypeError, ValueError) as error:
            name = benchmark if storable_name(benchmark) else ascii(benchmark[:40])
            problems.append(f"{name}: {error}")
        if drafts and drafts[-1].end > MOST_VALUES:
            raise BrokenFileError(f"more than {MOST_VALUES:,} values; give them in several files")
    packed = lists.packed()
    return ResultFile(
        commit=commit,
        date_ms=date_ms,
        environment=environment,
        machine=machine,
        details={str(k): str(v) for k, v in params.items() if v is not None and storable(f"{k}{v}")},
        entries=replace(packed, heads=tuple(_heads(drafts, packed))),
        problems=tuple(problems),
    )


def _parse(text: bytes) -> Any:
    """Python's JSON, by a reader that is three times as fast but knows no NaN.

    A bare NaN is handed to it in quotes, which `as_float` reads as well. In a string the quotes would end it, so what
    had one there is no JSON any more: that, and whatever else it refuses, is left to Python's own reader.
    """
    if b"Infinity" not in text:
        try:
            return orjson.loads(text.replace(b"NaN", b'"NaN"') if b"NaN" in text else text)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(text)
    except ValueError as error:
        raise BrokenFileError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise BrokenFileError("JSON that is nested too deep to be a result file") from error


def _rows(data: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Each benchmark with the columns that `_COLUMNS` names, whichever format the file has."""
    names = data.get("result_columns")
    place = {name: n for n, name in enumerate(names) if isinstance(name, str)} if isinstance(names, list) else {}
    width = len(names) if isinstance(names, list) else 0
    chosen = itemgetter(*(place.get(name, width) for name in _COLUMNS))
    started = data.get("started_at")
    started = started if isinstance(started, dict) else {}
    for benchmark, row in data["results"].items():
        if isinstance(row, list) and place:
            yield benchmark, chosen([*row[:width], *[None] * (width + 1 - min(len(row), width))])
        elif isinstance(row, dict):  # format 1: {"result": [...], "params": [...], "stats": [...]}
            stats = row.get("stats")
            stats = [each if isinstance(each, dict) else {} for each in (stats if isinstance(stats, list) else [stats])]
            q25, q75, repeat = ([each.get(key) for each in stats] for key in ("q_25", "q_75", "repeat"))
            yield benchmark, [row.get("result"), row.get("params"), started.get(benchmark), None, q25, q75, repeat,
                              row.get("samples")]  # fmt: skip
        else:  # format 1, a benchmark without parameters: the bare number
            yield benchmark, [row, None, started.get(benchmark), None, None, None, None, None]


class _Draft(NamedTuple):
    """An entry whose values are in the lists but not yet in columns."""

    benchmark: str
    started_ms: int | None
    duration_s: float
    start: int
    end: int
    choices: tuple[tuple[str, ...], ...]
    parameters: bytes


def _draft(benchmark: str, columns: Sequence[Any], lists: ValueLists, known: "_KnownParameters") -> _Draft:
    result, params, started, duration, q25, q75, repeat, samples = columns
    choices, parameters, count = known.of(benchmark, params or [])
    if result is not None and not isinstance(result, list):
        result = [result]
    if count > MOST_VALUES or (result is not None and len(result) != count):
        had = "no" if result is None else len(result)
        raise BrokenFileError(f"{had} values for {count} parameter combinations")
    result = [None] * count if result is None else result
    started_ms = started if type(started) is int else as_integer(started)
    if started_ms is not None and not 0 <= started_ms <= LATEST_MS:
        started_ms = None
    start = lists.add(
        result, _of_length(q25, count), _of_length(q75, count), _of_length(repeat, count), _of_length(samples, count)
    )
    return _Draft(benchmark, started_ms, _duration_s(duration), start, start + count, choices, parameters)


def _heads(drafts: Sequence[_Draft], values: PackedEntries) -> Iterator[EntryHead]:
    """The entries with their marks: an entry's start, and a digest of its parameters and values."""
    value, status = values.value.tobytes(), values.status.tobytes()
    for benchmark, started_ms, duration_s, start, end, choices, parameters in drafts:
        mine = slice(8 * start, 8 * end)
        digest = hashlib.blake2b(parameters + value[mine] + status[mine], digest_size=6).hexdigest()
        yield EntryHead(benchmark, started_ms, duration_s, f"{started_ms or 0}:{digest}", start, end, choices)


class _KnownParameters:
    """The parameters of each benchmark, checked and put into words once: the next file has the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[Any], _Parameters]] = {}
        self._alike: dict[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]] = {}  # one for all that are equal

    def of(self, benchmark: str, params: Any) -> "_Parameters":
        """The choices of each parameter as text, all of them in one piece, and how many combinations they have."""
        before = self._known.get(benchmark)
        if before is not None and before[0] == params:
            return before[1]
        if not isinstance(params, list) or not all(isinstance(choices, list) for choices in params):
            raise BrokenFileError("its params are not lists")
        choices = tuple([tuple(["nan" if choice == "NaN" else str(choice) for choice in each]) for each in params])
        whole = repr(choices).encode("utf-8", "surrogatepass")
        if not storable_name(benchmark) or not all(storable(choice) for each in choices for choice in each):
            raise BrokenFileError(
                "a name or parameter that no database takes: too long, or with a character of no text"
            )
        if max(len(self._known), len(self._alike)) > _MOST_KNOWN:
            self._known.clear()
            self._alike.clear()
        # Shared by benchmarks, as many have the same: what is sent to another process holds it once then.
        found = self._alike.setdefault(choices, choices), whole, math.prod(map(len, choices))
        if not all(type(choice) is str for each in params for choice in each):
            return found  # 1 and True and 1.0 are equal, and are not the same parameter
        self._known[benchmark] = (params, found)
        return found


_Parameters = tuple[tuple[tuple[str, ...], ...], bytes, int]


def _duration_s(raw: Any) -> float:
    seconds = raw if type(raw) is float else as_float(raw)
    return seconds if seconds is not None and 0 <= seconds <= LATEST_MS / 1000 else 0.0


def _of_length(column: Any, count: int) -> Sequence[Any] | None:
    """A per-combination column, or None where it is absent or of another length."""
    return column if isinstance(column, list) and len(column) == count else None


_COLUMNS = ("result", "params", "started_at", "duration", "stats_q_25", "stats_q_75", "stats_repeat", "samples")
_MOST_KNOWN = 50_000  # benchmarks
_known = _KnownParameters()  # of this process: what stands in it changes no result
