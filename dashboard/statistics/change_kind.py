"""What a change of a series is: something a commit did, or something that no commit is accused of."""

from enum import StrEnum


class ChangeKind(StrEnum):
    """The first is a commit's doing, and alone raises an alert."""

    STEP = "step"  # the level moved, and stayed
    MAY_BE_CHANCE = "may be chance"  # it looks like a step; among so many series chance alone may look so
    MACHINE_STATE = "machine state"  # the machine moved, or sat in another of its states for a while
    TRANSIENT = "transient"  # values that strayed from their level and returned
    DRIFT = "drift"  # the level moved slowly
    UNJUDGED = "not yet judged"  # the level moved; whether a commit or the machine did it, is being judged
