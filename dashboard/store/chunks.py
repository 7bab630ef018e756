"""Codec of points: columns of one series to bytes and back.

A chunk holds many points in one row: with a row for each point, keys and headers would exceed the numbers. Columns are
eight bytes wide, transposed by significance (all first bytes, then all second ones), because neighbours share them, and
compressed together with Zstandard (RFC 8878). Numbers of few digits, such as asv's statistics, are stored as integers
with a power of ten if that restores the same doubles, as in Afroozeh, Kuffó and Boncz, "ALP: Adaptive Lossless
floating-Point Compression" (SIGMOD 2023). Only the sign of a zero is lost.
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
_POWERS = tuple(10.0**digits for digits in range(17))  # by decimal digits
_LARGEST = 2.0**53  # above, doubles skip integers
_PLAIN = 255  # in place of the digits: stored as doubles
_NO_NUMBER = np.iinfo(np.int64).min
_FEWEST_TO_PACK = 4  # numbers; shorter chunks are soon joined, and packed then
_LEVEL = 3
_AT_ONCE = 1 << 15  # points transposed at once, which fit into a processor's caches


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Points of one series in the order of writing; every array has one entry for each."""

    commit: Ints  # ids
    run: Ints
    value: Floats  # NaN: no number
    q25: Floats  # NaN: unknown
    q75: Floats
    count: Ints  # of samples; -1: unknown
    status: Ints  # statements.STATUS_CODES
    reason: Ints  # index in `reasons`, from one; 0: none
    reasons: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.value)

    def take(self, indices: NDArray[Any] | slice) -> "Columns":
        return Columns(**{name: getattr(self, name)[indices] for name in ARRAYS}, reasons=self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleColumns:
    """The samples of several points: `count` for each run, in the order of measurement."""

    commit: Ints
    run: Ints
    count: Ints
    samples: Floats


ARRAYS = ("commit", "run", "count", "status", "reason", "value", "q25", "q75")
_INTS, _FLOATS = ARRAYS[:5], ARRAYS[5:]
_WIDTHS: dict[str, Any] = {**dict.fromkeys(_INTS, np.int32), "status": np.int8, **dict.fromkeys(_FLOATS, np.float64)}
_NONE: dict[str, Any] = {name: np.empty(0, np.int64 if name in _INTS else np.float64) for name in ARRAYS}
NO_POINTS = Columns(**_NONE)


def optional(column: NDArray[Any], absent: NDArray[np.bool_]) -> list[Any]:
    """The numbers of a column, with None where absent."""
    numbers: list[Any] = column.tolist()
    for index in np.flatnonzero(absent).tolist():
        numbers[index] = None
    return numbers


def join(parts: Sequence[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    code = {reason: number for number, reason in enumerate(reasons, start=1)}
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    if reasons:
        renumbered = [np.array([0, *(code[reason] for reason in part.reasons)])[part.reason] for part in parts]
        arrays["reason"] = np.concatenate(renumbered)
    return Columns(**arrays, reasons=reasons)


def join_samples(parts: Sequence[SampleColumns]) -> SampleColumns:
    names = ("commit", "run", "count", "samples")
    return SampleColumns(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def encode(points: Columns) -> bytes:
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


def decode(data: bytes) -> Columns:
    """Decode one chunk. Raises ValueError for the format of a newer version."""
    raw = codec.decompress(data)
    version, count, length, *digits = _HEADER.unpack_from(raw)
    _require_format(version)
    end = _HEADER.size + length
    table = _from_significance(raw, end, len(ARRAYS), count)
    columns: dict[str, Any] = dict(zip(_INTS, table, strict=False))
    for row, name in enumerate(_FLOATS):
        columns[name] = _unpack(table[len(_INTS) + row], digits[row])
    return Columns(**columns, reasons=tuple(json.loads(raw[_HEADER.size : end])) if length else ())


def decode_all(chunks: Sequence[bytes]) -> tuple[Ints, Columns]:
    """The number of points of each chunk, and the points of all, concatenated, in narrower columns.

    Chunks of one length are decoded together, three times as fast as one by one.
    """
    raws = [codec.decompress(data) for data in chunks]
    headers = [_HEADER.unpack_from(raw) for raw in raws]
    for header in headers:
        _require_format(header[0])
    counts = np.array([header[1] for header in headers], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    columns = {name: np.empty(int(counts.sum()), dtype=width) for name, width in _WIDTHS.items()}
    reasons: dict[str, int] = {}
    for count in sorted({*counts.tolist()} - {0}):
        alike = np.flatnonzero(counts == count)
        for batch in np.array_split(alike, min(-(-len(alike) * count // _AT_ONCE), len(alike))):
            indices = starts[batch][:, None] + np.arange(count)
            for name, rows in _decode_equal_length([(raws[n], headers[n]) for n in batch.tolist()], reasons).items():
                columns[name][indices] = rows
    return counts, Columns(**columns, reasons=tuple(reasons))


def encode_samples(samples: SampleColumns) -> bytes:
    keys = np.array([samples.commit, samples.run, samples.count], dtype="<i8")
    numbers = np.empty((1, len(samples.samples)), dtype="<i8")
    digits = _pack(samples.samples, numbers[0])
    header = _SAMPLES_HEADER.pack(_FORMAT, len(samples.run), len(samples.samples), digits)
    return codec.compress(header + _by_significance(keys) + _by_significance(numbers))


def decode_samples(data: bytes) -> SampleColumns:
    """Decode the samples of one chunk. Raises ValueError for the format of a newer version."""
    raw = codec.decompress(data)
    version, count, total, digits = _SAMPLES_HEADER.unpack_from(raw)
    _require_format(version)
    commit, run, counts = _from_significance(raw, _SAMPLES_HEADER.size, 3, count)
    numbers = _from_significance(raw, _SAMPLES_HEADER.size + 3 * 8 * count, 1, total)[0]
    return SampleColumns(commit=commit, run=run, count=counts, samples=_unpack(numbers, digits))


class _Codec(threading.local):
    """Zstandard's compressor and decompressor of a thread: not thread-safe, and expensive to create."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


codec = _Codec()


def _require_format(version: int) -> None:
    if version != _FORMAT:
        raise ValueError(f"points of format {version}; this version reads {_FORMAT}: upgrade warpwatch")


def _by_significance(table: Ints) -> bytes:
    rows, count = table.shape
    return np.ascontiguousarray(table.view(np.uint8).reshape(rows, count, 8).transpose(0, 2, 1)).tobytes()


def _from_significance(raw: bytes, offset: int, rows: int, count: int) -> Ints:
    if count == 1:  # the transposition is the identity
        return np.frombuffer(raw, dtype="<i8", count=rows, offset=offset)[:, None]
    transposed = np.frombuffer(raw, dtype=np.uint8, count=rows * count * 8, offset=offset).reshape(rows, 8, count)
    return np.ascontiguousarray(transposed.transpose(0, 2, 1)).view("<i8").reshape(rows, count)


def _decode_equal_length(
    chunks: Sequence[tuple[bytes, tuple[int, ...]]], reasons: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """Columns with a row for each chunk, given as bytes and header; new reasons are added to `reasons`, from one."""
    count, many = chunks[0][1][1], len(chunks)
    bodies = b"".join([raw[_HEADER.size + header[2] :] for raw, header in chunks])
    transposed = np.frombuffer(bodies, dtype=np.uint8).reshape(many, len(ARRAYS), 8, count)
    table = (
        np.array(transposed.transpose(1, 0, 3, 2), order="C").view("<i8").reshape(len(ARRAYS), many, count)
    )  # a copy
    columns: dict[str, NDArray[Any]] = dict(zip(_INTS, table, strict=False))
    for chunk, (raw, header) in enumerate(chunks):
        if header[2]:
            own = json.loads(raw[_HEADER.size : _HEADER.size + header[2]])
            codes = [0, *(reasons.setdefault(reason, len(reasons) + 1) for reason in own)]
            columns["reason"][chunk] = np.array(codes)[columns["reason"][chunk]]
    for row, name in enumerate(_FLOATS):
        columns[name] = _unpack_each(table[len(_INTS) + row], np.array([header[3 + row] for _, header in chunks]))
    return columns


def _pack(numbers: Floats, row: Ints) -> int:
    """Fill the row; return the fewest decimal digits that represent the numbers exactly, or _PLAIN."""
    if len(numbers) < _FEWEST_TO_PACK:
        row[:] = np.ascontiguousarray(numbers, dtype="<f8").view("<i8")
        return _PLAIN
    known = ~np.isnan(numbers)
    has_gaps = not known.all()
    present = numbers[known] if has_gaps else numbers
    if not len(present):
        row[:] = _NO_NUMBER
        return 0
    largest = float(np.abs(present).max())
    for digits in range(_digits(float(present[0])), len(_POWERS)):
        power = _POWERS[digits]
        if not largest * power < _LARGEST:
            break
        scaled = np.rint(present * power)
        if (scaled / power == present).all():
            if has_gaps:
                row[:] = _NO_NUMBER
                row[known] = scaled
            else:
                row[:] = scaled
            return digits
    row[:] = np.ascontiguousarray(numbers, dtype="<f8").view("<i8")
    return _PLAIN


def _digits(number: float) -> int:
    """Number of decimal digits of the shortest representation."""
    mantissa, _, exponent = repr(number).partition("e")
    decimals = mantissa.partition(".")[2]
    return max((0 if decimals == "0" else len(decimals)) - int(exponent or 0), 0)


def _unpack_each(rows: Ints, digits: Ints) -> Floats:
    """`_unpack` for each row with its own digits."""
    is_plain = digits == _PLAIN
    numbers: Floats = rows / np.array(_POWERS)[np.where(is_plain, 0, digits)][:, None]
    numbers[rows == _NO_NUMBER] = np.nan
    numbers[is_plain] = rows[is_plain].view("<f8")
    return numbers


def _unpack(row: Ints, digits: int) -> Floats:
    if digits == _PLAIN:
        return row.view("<f8")
    numbers = row / _POWERS[digits]
    if row.min(initial=0) == _NO_NUMBER:
        numbers[row == _NO_NUMBER] = np.nan
    return numbers
