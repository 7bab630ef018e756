"""Numbers read the way a kernel engineer writes them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwatch.dashboard.model.quantities import change, quantity, ratio, share


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.12e-5, "seconds", "31.2 µs"),
        (0.9996e-3, "s", "1.00 ms"),
        (4370, "GB/s", "4.37 TB/s"),
        (654.2, "TFLOP/s", "654 TFLOP/s"),
        (96, "", "96"),
        (0.317, "", "0.317"),
        (12345, "rows", "12,345 rows"),
        (0.01234, "joules", "12.3 mJ"),
        (61400.4, "cycles", "61,400 cycles"),
        (7994400, "cycles", "7.99 M cycles"),
        (1, "launches", "1 launch"),
        (3, "launches", "3 launches"),
        (0.6341, "share of peak", "63.4 % of peak"),
        (0.5, "share", "50.0 %"),
        (None, "s", "–"),
    ],
)
def test_a_value_has_three_digits_and_its_units_prefix(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(1e-9, 9e14))
def test_what_is_shown_is_the_value_to_three_digits(value: float) -> None:
    number, unit = quantity(value, "s").split(" ")
    factor = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}[unit[:-1]]
    assert math.isclose(float(number) * factor, value, rel_tol=0.0051)


def test_changes_carry_their_sign_and_large_ones_their_factor() -> None:
    assert [change(x) for x in (0.041, -0.5, 3.1, None)] == ["+4.1 %", "−50.0 %", "4.1×", "–"]
    assert [change(1.0, 0.0), change(1.0, 2.0), change(0.0, 0.0)] == ["from 0", "2×", "0.0 %"]
    assert [change(x) for x in (-0.0004, 0.0004, -0.0005001, 0.0, -0.0)] == [
        "0.0 %",
        "0.0 %",
        "−0.1 %",
        "0.0 %",
        "0.0 %",
    ]
    assert (share(0.634), ratio(1.3056)) == ("63 %", "1.31×")
    assert (share(0.0042), share(0.00999), share(0.0), share(1.2)) == ("0.4 %", "1 %", "0 %", "120 %")
