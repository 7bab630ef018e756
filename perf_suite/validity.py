"""Whether a number may be taken: a throttled, contended or clock-shifted sample set is none. No torch here."""

import statistics
from collections.abc import Mapping, Sequence

from .records import ClockEventReasons

# NVML's clock-event bits under which a number is not taken. A software power cap is not among them: a T4 (70 W)
# lives under its cap whenever it works, so there it is the normal condition; it is recorded all the same.
_BITS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_HARMLESS = {"power cap", "sync boost"}
# Between the first and the last fifth of the calls. The 713 sample sets of nine recorded H200 runs stayed within 1.9 %.
_LARGEST_SHIFT = 0.03
_FEWEST_CLOCKS = 10


def throttled(events: ClockEventReasons | None, throttled_s: Mapping[str, float]) -> str | None:
    """The reason, by the bits around a measurement and the seconds throttled within it, by name; or None."""
    bits = events.before | events.after if events else 0
    names = [name for bit, name in _BITS.items() if bits & bit]
    counted = {name: seconds for name, seconds in throttled_s.items() if seconds > 0 and name not in _HARMLESS}
    told = [f"{name} for {seconds * 1e3:.3g} ms" for name, seconds in counted.items()]
    told += [name for name in names if name not in counted]
    return f"the GPU throttled: {', '.join(told)}" if told else None


def contended(contenders: int) -> str | None:
    """The reason if other processes computed on the GPU meanwhile."""
    if not contenders:
        return None
    return "another process" + (f" and {contenders - 1} more" if contenders > 1 else "") + " computed on the GPU"


def clock_shifted(clocks_hz: Sequence[float]) -> str | None:
    """The reason if the SM clock was another at the end of the calls than at their beginning."""
    if len(clocks_hz) < _FEWEST_CLOCKS:
        return None
    fifth = len(clocks_hz) // 5
    first, last = statistics.median(clocks_hz[:fifth]), statistics.median(clocks_hz[-fifth:])
    if abs(last / first - 1) <= _LARGEST_SHIFT:
        return None
    return f"the SM clock moved from {first / 1e6:.0f} to {last / 1e6:.0f} MHz while it was measured"
