"""A change taken apart: what the machine did, as its controls show, and what remains for the kernel."""

import math
from dataclasses import dataclass

from warpwatch.dashboard.statistics.growth import growth
from warpwatch.dashboard.statistics.machine_state import Control
from warpwatch.dashboard.store.records import Magnitude, SeriesChange


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsOfChange:
    """Both parts as relative changes; one after the other they make the whole."""

    machine: Magnitude
    kernel: Magnitude
    control: Control  # who spoke for the machine


def parts_of_change(change: SeriesChange) -> PartsOfChange | None:
    """The parts with their 95 % intervals, which come from how the controls scatter.

    None where no control could tell, and where the machine's other series spoke: they may share what the commit did.
    """
    share = change.share
    if share is None or share.control is Control.OTHERS or change.magnitude <= -1:
        return None
    whole = math.log1p(change.magnitude)
    ends = (share.value, share.low, share.high)
    return PartsOfChange(
        machine=_magnitude(*(growth(whole * part) for part in ends)),
        kernel=_magnitude(*(growth(whole * (1 - part)) for part in ends)),
        control=share.control,
    )


def _magnitude(value: float, *ends: float) -> Magnitude:
    return Magnitude(value=value, low=min(ends), high=max(ends))
