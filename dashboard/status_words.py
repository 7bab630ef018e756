"""What is said of what is missing: why there is no number, and that not all points are drawn."""

from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.shown_records import Extent


def no_number(status: Status, reason: str | None) -> str:
    """One line: "invalid: throttled", or "not measured: code unchanged since abc1234"."""
    if status is Status.UNCHANGED:
        return f"not measured: {reason or 'its code is that of a commit measured before'}"
    return f"{status.value}: {reason}" if reason else status.value


def points_said(extent: Extent) -> str:
    """How many points are drawn where not all are; "" where all are."""
    if not extent.is_thinned:
        return ""
    if extent.drawn_inside == extent.points_inside:
        return (
            f"All {extent.points_inside:,} points of this range are drawn; outside it, only some of {extent.points:,}."
        )
    return (
        f"{extent.drawn_inside:,} of {extent.points_inside:,} points are drawn: extremes, changes and what has no"
        " number are always among them. Zoom in for the rest."
    )
