"""Points and samples come back from their bytes as they went in."""

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, one_of, sampled_from, tuples

from warpwatch.dashboard.store.chunks import (
    ARRAYS,
    Columns,
    SampleColumns,
    decode,
    decode_all,
    decode_samples,
    encode,
    encode_samples,
    join,
)

_any_number = one_of(
    floats(allow_infinity=False),
    integers(-(10**6), 10**6).map(lambda n: n / 1000),  # of few digits
    integers(0, 2**60).map(float),
)
_rows = lists(
    tuples(
        integers(1, 2**31 - 1),
        integers(1, 2**31 - 1),
        integers(-1, 2**31 - 1),
        integers(0, 4),
        integers(0, 2),
        _any_number,
        _any_number,
        _any_number,
    ),
    min_size=1,
    max_size=40,
)


def _columns(rows: list[tuple[float, ...]], reasons: tuple[str, ...] = ("it crashed", "out of memory ☠")) -> Columns:
    ints = {name: np.array([int(row[n]) for row in rows]) for n, name in enumerate(ARRAYS[:5])}
    numbers = {name: np.array([row[n] for row in rows], dtype=np.float64) for n, name in enumerate(ARRAYS[5:], start=5)}
    return Columns(**ints, **numbers, reasons=reasons)


def _same(one: Columns, other: Columns) -> None:
    for name in set(ARRAYS) - {"reason"}:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    reasons = [[(None, *each.reasons)[n] for n in each.reason.tolist()] for each in (one, other)]
    assert reasons[0] == reasons[1]


@given(_rows)
def test_points_come_back_as_they_went_in(rows: list[tuple[float, ...]]) -> None:
    points = _columns(rows)
    _same(decode(encode(points)), points)


@given(_rows, _rows)
def test_joined_points_are_the_one_and_then_the_other(
    first: list[tuple[float, ...]], more: list[tuple[float, ...]]
) -> None:
    one, other = _columns(first), _columns(more, reasons=("out of memory ☠", "not available here"))
    both = join([decode(encode(one)), decode(encode(other))])
    _same(both.take(slice(0, len(one))), one)
    _same(both.take(slice(len(one), None)), other)


@given(lists(_rows, max_size=6), integers(1, 200))
def test_stretches_unpacked_together_are_the_one_and_then_the_others(
    several: list[list[tuple[float, ...]]], at_once: int
) -> None:
    parts = [_columns(rows, reasons=(f"reason {number % 3}", "out of memory ☠")) for number, rows in enumerate(several)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warpwatch.dashboard.store.chunks._AT_ONCE", at_once)
        counts, together = decode_all([encode(part) for part in parts])
    assert counts.tolist() == [len(part) for part in parts]
    ends = np.cumsum(counts)
    for part, start, end in zip(parts, ends - counts, ends, strict=True):
        _same(together.take(slice(start, end)), part)


@given(lists(lists(floats(allow_nan=False, allow_infinity=False), max_size=12), min_size=1, max_size=12))
def test_samples_come_back_as_they_went_in(taken: list[list[float]]) -> None:
    samples = SampleColumns(
        commit=np.arange(len(taken)),
        run=np.arange(len(taken)) + 7,
        count=np.array([len(each) for each in taken]),
        samples=np.array([sample for each in taken for sample in each], dtype=np.float64),
    )
    back = decode_samples(encode_samples(samples))
    for name in ("commit", "run", "count", "samples"):
        np.testing.assert_array_equal(getattr(back, name), getattr(samples, name))


@given(sampled_from([1e-9, 1e-6, 1e-3, 1.0, 1e6]), integers(50, 400))
def test_numbers_of_five_digits_take_less_than_half_of_their_doubles(scale: float, count: int) -> None:
    values = [float(f"{scale * (1 + n * 37 % 101 / 1000):.5g}") for n in range(count)]
    rows = [(1, 1, 10, 0, 0, value, value, value) for value in values]
    assert len(encode(_columns(rows))) < 3 * 8 * count / 2


def test_points_of_a_newer_version_are_refused() -> None:
    data = bytearray(zstandard.decompress(encode(_columns([(1, 1, 1, 0, 0, 1.0, 1.0, 1.0)]))))
    data[0] = 9
    with pytest.raises(ValueError, match="upgrade warpwatch"):
        decode(zstandard.compress(bytes(data)))
