"""Numbers for a reader's eye: three to four figures and a prefix."""

_PREFIXES = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}


def quantity(value: float, unit: str) -> str:
    """`value` in `unit` with the SI prefix that leaves 1 to 999 before the point: "4.37 TB/s", "31.4 µs"."""
    prefix = next((prefix for prefix, scale in _PREFIXES.items() if abs(value) >= 0.9995 * scale), "n")
    scaled = value / _PREFIXES[prefix]
    decimals = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
    return f"{scaled:.{decimals}f} {prefix}{unit}"


def share(value: float) -> str:
    """A fraction in per cent: "93.1 %"."""
    return f"{value * 100:.1f} %"
