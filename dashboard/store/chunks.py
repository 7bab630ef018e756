"""Points of one series as columns, and as the bytes that the store keeps of them.

A stretch of a series is kept in one row: a row a point would spend more on its keys and its header than on its numbers.
Columns are eight bytes wide, laid out by significance (all first bytes, then all second ones), since neighbours share
them, and compressed together with Zstandard (RFC 8878). Numbers of few digits, as asv writes its statistics, are kept
as integers and a power of ten where that gives back the very same doubles, as in Afroozeh, Kuffó and Boncz, "ALP:
Adaptive Lossless floating-Point Compression" (SIGMOD 2023). Only the sign of a zero is not kept.
"""

import json
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FORMAT = 1
_HEADER = struct.Struct("<BIIBBB")  # format, points, bytes of the reasons, digits of value, q25 and q75
_SAMPLES_HEADER = struct.Struct("<BIIB")  # format, points, samples, digits
_POWERS = tuple(10.0**digits for digits in range(17))  # by digits behind the point
_LARGEST = 2.0**53  # up to which doubles are whole numbers without gaps
_PLAIN = 255  # in place of the digits: the doubles themselves
_NO_NUMBER = np.iinfo(np.int64).min
_WORTH_A_LOOK = 4  # numbers; fewer are soon joined with others, and looked at then
_LEVEL = 3
_AT_ONCE = 1 << 15  # points that are laid out together: what a processor's caches hold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Points of one series in the order they were written. Every array has a place for each."""

    commit: Ints  # ids
    run: Ints
    value: Floats  # NaN: no number
    q25: Floats  # NaN: not known
    q75: Floats
    count: Ints  # of samples; -1: not known
    status: Ints  # rows.STATUS_CODES
    reason: Ints  # place in `reasons` from one on; 0: none
    reasons: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.value)

    def take(self, places: NDArray[Any] | slice) -> "Columns":
        """The points at these places."""
        return Columns(**{name: getattr(self, name)[places] for name in ARRAYS}, reasons=self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleColumns:
    """The samples of several points: `count` of them for each run, in the order taken."""

    commit: Ints
    run: Ints
    count: Ints
    samples: Floats


ARRAYS = ("commit", "run", "count", "status", "reason", "value", "q25", "q75")
_INTS, _FLOATS = ARRAYS[:5], ARRAYS[5:]
_WIDTHS: dict[str, Any] = {**dict.fromkeys(_INTS, np.int32), "status": np.int8, **dict.fromkeys(_FLOATS, np.float64)}


def optional(column: NDArray[Any], absent: NDArray[np.bool_]) -> list[Any]:
    """The numbers of a column, None where they are absent."""
    numbers: list[Any] = column.tolist()
    for place in np.flatnonzero(absent).tolist():
        numbers[place] = None
    return numbers


def join(parts: Sequence[Columns]) -> Columns:
    """The parts one after the other."""
    if len(parts) == 1:
        return parts[0]
    reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    place = {reason: number for number, reason in enumerate(reasons, start=1)}
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    if reasons:
        renumbered = [np.array([0, *(place[reason] for reason in part.reasons)])[part.reason] for part in parts]
        arrays["reason"] = np.concatenate(renumbered)
    return Columns(**arrays, reasons=reasons)


def join_samples(parts: Sequence[SampleColumns]) -> SampleColumns:
    """The parts one after the other."""
    names = ("commit", "run", "count", "samples")
    return SampleColumns(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def encode(points: Columns) -> bytes:
    """The bytes of one stretch."""
    table = np.empty((len(ARRAYS), len(points)), dtype="<i8")
    for row, name in enumerate(_INTS):
        table[row] = getattr(points, name)
    reasons = b""
    if points.reasons and points.reason.any():
        used = np.array(sorted({*points.reason.tolist()} - {0}))
        table[_INTS.index("reason")] = np.where(points.reason > 0, np.searchsorted(used, points.reason) + 1, 0)
        reasons = json.dumps([points.reasons[n - 1] for n in used]).encode()
    digits = [_pack(getattr(points, name), table[row]) for row, name in enumerate(_FLOATS, start=len(_INTS))]
    header = _HEADER.pack(_FORMAT, len(points), len(reasons), *digits)
    return codec.compress(header + reasons + _by_significance(table))


def encode_each(points: Columns) -> list[bytes]:
    """The bytes of stretches of one point each, of as many series: what `encode` gives, at a tenth of the time."""
    table = np.empty((len(points), len(ARRAYS)), dtype="<i8")
    for place, name in enumerate(_INTS):
        table[:, place] = getattr(points, name)
    for place, name in enumerate(_FLOATS, start=len(_INTS)):
        table[:, place] = np.ascontiguousarray(getattr(points, name), dtype="<f8").view("<i8")
    header = _HEADER.pack(_FORMAT, 1, 0, _PLAIN, _PLAIN, _PLAIN)
    found = [codec.compress(header + row.tobytes()) for row in table]
    for place in np.flatnonzero(points.reason).tolist():  # its stretch keeps the reason as well
        found[place] = encode(points.take(slice(place, place + 1)))
    return found


def decode(data: bytes) -> Columns:
    """The points of one stretch. Raises ValueError if a newer version wrote it."""
    raw = codec.decompress(data)
    version, count, length, *digits = _HEADER.unpack_from(raw)
    _want_format(version)
    end = _HEADER.size + length
    table = _from_significance(raw, end, len(ARRAYS), count)
    found: dict[str, Any] = dict(zip(_INTS, table, strict=False))
    for row, name in enumerate(_FLOATS):
        found[name] = _unpack(table[len(_INTS) + row], digits[row])
    return Columns(**found, reasons=tuple(json.loads(raw[_HEADER.size : end])) if length else ())


def decode_all(stretches: Sequence[bytes]) -> tuple[Ints, Columns]:
    """How many points each of the stretches has, and the points of all, one after the other, in narrower columns.

    Those of one length are laid out together: one by one they take three times as long.
    """
    raws = [codec.decompress(data) for data in stretches]
    headers = [_HEADER.unpack_from(raw) for raw in raws]
    for header in headers:
        _want_format(header[0])
    counts = np.array([header[1] for header in headers], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    columns = {name: np.empty(int(counts.sum()), dtype=width) for name, width in _WIDTHS.items()}
    reasons: dict[str, int] = {}
    for count in sorted({*counts.tolist()} - {0}):
        alike = np.flatnonzero(counts == count)
        for some in np.array_split(alike, min(-(-len(alike) * count // _AT_ONCE), len(alike))):
            places = starts[some][:, None] + np.arange(count)
            for name, rows in _of_one_length([(raws[n], headers[n]) for n in some.tolist()], reasons).items():
                columns[name][places] = rows
    return counts, Columns(**columns, reasons=tuple(reasons))


def encode_samples(samples: SampleColumns) -> bytes:
    """The bytes of the samples of one stretch."""
    keys = np.array([samples.commit, samples.run, samples.count], dtype="<i8")
    numbers = np.empty((1, len(samples.samples)), dtype="<i8")
    digits = _pack(samples.samples, numbers[0])
    header = _SAMPLES_HEADER.pack(_FORMAT, len(samples.run), len(samples.samples), digits)
    return codec.compress(header + _by_significance(keys) + _by_significance(numbers))


def decode_samples(data: bytes) -> SampleColumns:
    """The samples of one stretch. Raises ValueError if a newer version wrote it."""
    raw = codec.decompress(data)
    version, count, total, digits = _SAMPLES_HEADER.unpack_from(raw)
    _want_format(version)
    commit, run, its_count = _from_significance(raw, _SAMPLES_HEADER.size, 3, count)
    numbers = _from_significance(raw, _SAMPLES_HEADER.size + 3 * 8 * count, 1, total)[0]
    return SampleColumns(commit=commit, run=run, count=its_count, samples=_unpack(numbers, digits))


class _Codec(threading.local):
    """Zstandard's two ends, one of each a thread: they must not be shared, and cost more to make than a use of them."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


codec = _Codec()


def _want_format(version: int) -> None:
    if version != _FORMAT:
        raise ValueError(f"points of format {version}; this version reads {_FORMAT}: upgrade warpwatch")


def _by_significance(table: Ints) -> bytes:
    rows, count = table.shape
    return np.ascontiguousarray(table.view(np.uint8).reshape(rows, count, 8).transpose(0, 2, 1)).tobytes()


def _from_significance(raw: bytes, place: int, rows: int, count: int) -> Ints:
    if count == 1:  # they lie so already
        return np.frombuffer(raw, dtype="<i8", count=rows, offset=place)[:, None]
    laid = np.frombuffer(raw, dtype=np.uint8, count=rows * count * 8, offset=place).reshape(rows, 8, count)
    return np.ascontiguousarray(laid.transpose(0, 2, 1)).view("<i8").reshape(rows, count)


def _of_one_length(
    stretches: Sequence[tuple[bytes, tuple[int, ...]]], reasons: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """A row each. A stretch is its bytes and their header; `reasons` gets those that it lacks, numbered from one on."""
    count, many = stretches[0][1][1], len(stretches)
    bodies = b"".join([raw[_HEADER.size + header[2] :] for raw, header in stretches])
    laid = np.frombuffer(bodies, dtype=np.uint8).reshape(many, len(ARRAYS), 8, count)
    table = np.array(laid.transpose(1, 0, 3, 2), order="C").view("<i8").reshape(len(ARRAYS), many, count)  # a copy
    found: dict[str, NDArray[Any]] = dict(zip(_INTS, table, strict=False))
    for place, (raw, header) in enumerate(stretches):
        if header[2]:
            told = json.loads(raw[_HEADER.size : _HEADER.size + header[2]])
            numbers = [0, *(reasons.setdefault(reason, len(reasons) + 1) for reason in told)]
            found["reason"][place] = np.array(numbers)[found["reason"][place]]
    for row, name in enumerate(_FLOATS):
        found[name] = _unpack_each(table[len(_INTS) + row], np.array([header[3 + row] for _, header in stretches]))
    return found


def _pack(numbers: Floats, row: Ints) -> int:
    """Fills the row; returns the fewest digits behind the point with which the numbers are whole, or _PLAIN."""
    if len(numbers) < _WORTH_A_LOOK:
        row[:] = np.ascontiguousarray(numbers, dtype="<f8").view("<i8")
        return _PLAIN
    known = ~np.isnan(numbers)
    has_gaps = not known.all()
    told = numbers[known] if has_gaps else numbers
    if not len(told):
        row[:] = _NO_NUMBER
        return 0
    largest = float(np.abs(told).max())
    for digits in range(_digits(float(told[0])), len(_POWERS)):
        power = _POWERS[digits]
        if not largest * power < _LARGEST:
            break
        whole = np.rint(told * power)
        if (whole / power == told).all():
            if has_gaps:
                row[:] = _NO_NUMBER
                row[known] = whole
            else:
                row[:] = whole
            return digits
    row[:] = np.ascontiguousarray(numbers, dtype="<f8").view("<i8")
    return _PLAIN


def _digits(number: float) -> int:
    """Behind the point, of the shortest decimal that is the number."""
    mantissa, _, exponent = repr(number).partition("e")
    behind = mantissa.partition(".")[2]
    return max((0 if behind == "0" else len(behind)) - int(exponent or 0), 0)


def _unpack_each(rows: Ints, digits: Ints) -> Floats:
    """`_unpack` of each row, which has digits of its own."""
    is_plain = digits == _PLAIN
    found: Floats = rows / np.array(_POWERS)[np.where(is_plain, 0, digits)][:, None]
    found[rows == _NO_NUMBER] = np.nan
    found[is_plain] = rows[is_plain].view("<f8")
    return found


def _unpack(row: Ints, digits: int) -> Floats:
    if digits == _PLAIN:
        return row.view("<f8")
    found = row / _POWERS[digits]
    if row.min(initial=0) == _NO_NUMBER:
        found[row == _NO_NUMBER] = np.nan
    return found
