"""Text of quantities: "31.2 µs", "+4.1 %"."""

import math

_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
    (1e-12, "p"),
)
# Units as asv projects spell them -> (SI unit, factor). Others are shown unchanged.
_SI_UNITS = {
    "seconds": ("s", 1.0),
    "second": ("s", 1.0),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "µs": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "bytes": ("B", 1.0),
    "B": ("B", 1.0),
    "GB/s": ("B/s", 1e9),
    "B/s": ("B/s", 1.0),
    "TFLOP/s": ("FLOP/s", 1e12),
    "TFLOPS": ("FLOP/s", 1e12),
    "FLOP/s": ("FLOP/s", 1.0),
    "OP/s": ("OP/s", 1.0),
    "W": ("W", 1.0),
    "J": ("J", 1.0),
    "joules": ("J", 1.0),
    "Hz": ("Hz", 1.0),
}
# Shares are recorded as fractions of one and shown in per cent.
_SHARES = {"share": "", "share of peak": " of peak", "share of ceiling": " of ceiling"}
_UNNAMED = frozenset({"unit", "count"})  # asv's default, and a word without information
_SINGULAR = {
    "launches": "launch",
    "registers": "register",
    "instructions": "instruction",
    "barriers": "barrier",
    "cycles": "cycle",
}


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit, three significant digits and an SI prefix where the unit takes one; "–" for None."""
    if value is None or math.isnan(value):
        return "–"
    if unit in _UNNAMED:
        unit = ""
    if unit in _SHARES:
        return f"{value * 100:.1f} %{_SHARES[unit]}"
    if unit not in _SI_UNITS:
        return _counted(value, unit)
    si_unit, factor = _SI_UNITS[unit]
    scaled = value * factor
    for size, prefix in _PREFIXES:
        # 0.9995 and up would round to 1.00 of the next prefix.
        if abs(scaled) >= size * 0.9995:
            return f"{_three_digits(scaled / size)} {prefix}{si_unit}"
    return f"{_three_digits(scaled)} {si_unit}"


def throughput(per_second: float | None, dtype: str) -> str:
    """Operations a second on numbers of a dtype: "650 TFLOP/s", of integers "890 TOP/s".

    As data sheets have it never in peta: "1,980 TOP/s".
    """
    unit = "OP/s" if dtype.startswith(("int", "uint")) else "FLOP/s"
    if per_second is not None and per_second >= 1e15:
        return f"{float(f'{per_second / 1e12:.3g}'):,.0f} T{unit}"
    return quantity(per_second, unit)


def axis_unit(typical: float, unit: str) -> tuple[float, str]:
    """What to multiply recorded values by on an axis around `typical`, and the unit they then have: (1e6, "µs")."""
    if unit in _SHARES:
        return 100.0, f"%{_SHARES[unit]}"
    if unit not in _SI_UNITS:
        return 1.0, unit
    si_unit, factor = _SI_UNITS[unit]
    for size, prefix in _PREFIXES:
        if abs(typical * factor) >= size * 0.9995:
            return factor / size, f"{prefix}{si_unit}"
    return factor, si_unit


def in_seconds(value: float | None, unit: str) -> float | None:
    """A time as recorded, in seconds; None for what is no time."""
    si_unit, factor = _SI_UNITS.get(unit, ("", 1.0))
    return value * factor if value is not None and si_unit == "s" else None


def latency(seconds: float | None) -> str:
    """Seconds as "31.2 µs"."""
    return quantity(seconds, "s")


def change(relative: float | None, before: float | None = None) -> str:
    """A signed relative change as "+4.1 %", "0.0 %" without a sign, "2.4×" from a factor of two on; "–" for None.

    "from 0" if `before` is zero.
    """
    if relative is None or math.isnan(relative):
        return "–"
    if before == 0 and relative:
        return "from 0"
    if relative >= 1.0:
        return f"{relative + 1:,.0f}×" if relative >= 999 else f"{relative + 1:.3g}×"
    # A change that rounds to zero has no sign.
    return f"{relative * 100:+z.1f} %".replace("-", "−").replace("+0.0", "0.0")


def change_arrow(relative: float | None) -> str:
    """A relative change with an arrow for its direction: "▼29.0 %", "▲2.4×"; "–" for None."""
    text = change(relative)
    if relative is None or text in {"–", "0.0 %"}:
        return text
    return ("▼" if relative < 0 else "▲") + text.lstrip("+−")


def change_range(low: float | None, high: float | None) -> str:
    """The ends of a relative change in one unit: "−3.2 % to +18.0 %", or "0.0330× to 2.27×" if one end is a ratio."""
    if low is not None and high is not None and low < 1.0 <= high:
        return f"{ratio(low + 1)} to {change(high)}"
    return f"{change(low)} to {change(high)}"


def share(fraction: float | None) -> str:
    """A fraction of one as "63 %"; below one per cent with a decimal, as "0.4 %"."""
    if fraction is None:
        return "–"
    decimals = 1 if 0 < abs(fraction) < 0.00995 else 0  # 0.00995 and up would round to 1.0
    return f"{fraction * 100:.{decimals}f} %"


def ratio(value: float | None) -> str:
    """How many times, as "1.31×"."""
    return "–" if value is None else f"{_three_digits(value)}×"


def number(value: float | None) -> str:
    """Three significant digits without a unit."""
    return "–" if value is None else _three_digits(value)


def _counted(value: float, unit: str) -> str:
    """A count: "96 registers"; from a million on "1.23 M cycles"."""
    if abs(value) >= 999_500 and unit in _SINGULAR:
        return f"{_three_digits(value / 1e6)} M {unit}"
    is_whole = float(value).is_integer() or (abs(value) >= 1000 and unit in _SINGULAR)
    text = f"{value:,.0f}" if is_whole else _three_digits(value)
    return f"{text} {_SINGULAR.get(unit, unit) if text == '1' else unit}".rstrip()


def _three_digits(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{min(decimals, 6)}f}" if abs(value) < 1e6 else f"{value:.3g}"


_LARGEST = 700.0  # nats; a ratio beyond 1e304 overflows


def relative_change(log_ratio: float) -> float:
    """Relative change of a log ratio: 0.04 is 4 % more. Clipped to above -1 and at most 1e304."""
    return max(math.expm1(min(log_ratio, _LARGEST)), -1 + 2**-53)
