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
LARGEST_SHIFT = 0.03
# A card under its power cap moves its clock whatever it computes, as its canaries show; other kernels draw more power
# than they do. Nothing is steady beyond the second number, a canary neither.
_OF_CANARY = 1.5
LARGEST_SHIFT_OF_A_CANARY = 0.15
_FEWEST_CLOCKS = 10


def throttled(events: ClockEventReasons | None, throttled_s: Mapping[str, float]) -> str | None:
    """The reason, by the bits around a measurement and the seconds throttled within it, by name; or None."""
    bits = events.before | events.after if events else 0
    names = [name for bit, name in _BITS.items() if bits & bit]
    counted = {name: seconds for name, seconds in throttled_s.items() if seconds > 0 and name not in _HARMLESS}
    reasons = [f"{name} for {seconds * 1e3:.3g} ms" for name, seconds in counted.items()]
    reasons += [name for name in names if name not in counted]
    return f"the GPU throttled: {', '.join(reasons)}" if reasons else None


def contended(contenders: int) -> str | None:
    """The reason if other processes computed on the GPU meanwhile."""
    if not contenders:
        return None
    return "another process" + (f" and {contenders - 1} more" if contenders > 1 else "") + " computed on the GPU"


def clock_shifted(clocks_hz: Sequence[float], largest: float = LARGEST_SHIFT) -> str | None:
    """The reason if from the beginning of the calls to their end the SM clock moved by more than a share `largest`."""
    ends = _ends(clocks_hz)
    if ends is None or abs(ends[1] / ends[0] - 1) <= largest:
        return None
    return f"the SM clock moved from {ends[0] / 1e6:.0f} to {ends[1] / 1e6:.0f} MHz while it was measured"


class ClockTolerance:
    """How far the SM clock of this card may move while something is measured, by how far it moves for its canaries."""

    def __init__(self) -> None:
        self._shifts: dict[str, list[float]] = {}

    def visited(self, canary: str, clocks_hz: Sequence[float]) -> None:
        """Take a canary's visit into account."""
        ends = _ends(clocks_hz)
        if ends is not None:
            self._shifts.setdefault(canary, []).append(abs(ends[1] / ends[0] - 1))

    @property
    def largest(self) -> float:
        """As a share. 3 %, or more where a canary's clock usually moves by more than 2 %; 15 % at most."""
        usual = max((statistics.median(shifts) for shifts in self._shifts.values()), default=0.0)
        return min(max(LARGEST_SHIFT, _OF_CANARY * usual), LARGEST_SHIFT_OF_A_CANARY)


def _ends(clocks_hz: Sequence[float]) -> tuple[float, float] | None:
    """The clock at the beginning and at the end; None of too few."""
    if len(clocks_hz) < _FEWEST_CLOCKS:
        return None
    fifth = len(clocks_hz) // 5
    return statistics.median(clocks_hz[:fifth]), statistics.median(clocks_hz[-fifth:])
