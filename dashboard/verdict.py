"""The one word a comparison ends in, shared by pages, `warpwatch check` and alerts."""

from enum import StrEnum


class Verdict(StrEnum):
    """What became of one series between two commits, or at its newest one."""

    REGRESSED = "regressed"  # worse by more than the noise and the smallest effect that matters
    IMPROVED = "improved"
    UNCHANGED = "unchanged"  # any change is smaller than what matters, and the data could have shown it
    INCONCLUSIVE = "inconclusive"  # the noise hides what matters; the comparison says how many runs it needs
    INVALID = "invalid"  # recorded, but throttled, wrong or failed: there is a reason and no number
    MISSING = "missing"  # nothing recorded
