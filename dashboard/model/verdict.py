"""Verdicts of comparisons, kinds of changes, and the controls that attribute them."""

from enum import StrEnum


class Verdict(StrEnum):
    """What became of one series between two commits, or at its newest one."""

    REGRESSED = "regressed"  # worse by more than the noise and the smallest effect that matters
    IMPROVED = "improved"
    UNCHANGED = "unchanged"  # any change is smaller than what matters, and the data could have shown it
    INCONCLUSIVE = "inconclusive"  # the noise hides what matters; the comparison says how many runs it needs
    INVALID = "invalid"  # recorded, but throttled, wrong or failed: there is a reason and no number
    MISSING = "missing"  # nothing recorded


class NoiseSource(StrEnum):
    """Evidence behind the noise of one run in a comparison."""

    RUNS = "runs"  # several runs of both sides
    RERUNS = "reruns"  # runs of equal code in one session on one GPU, of the series and of its machine's others
    HISTORY = "history"  # the series over commits
    MACHINE = "machine"  # mostly the machine's series of similar latency
    REFERENCES = "references"  # series that no commit changed, between two GPUs
    SAMPLES = "samples"  # samples within a run
    ASSUMED = "assumed"  # no data
    NONE = "none"  # the quantity is exact


# What a change of a series is: something a commit did, or something that no commit is accused of.


class ChangeKind(StrEnum):
    """The first is a commit's doing, and alone raises an alert."""

    STEP = "step"  # the level moved, and stayed
    MAY_BE_CHANCE = "may be chance"  # it looks like a step; among so many series chance alone may look so
    MACHINE_STATE = "machine state"  # the machine moved, or sat in another of its states for a while
    TRANSIENT = "transient"  # values that strayed from their level and returned
    DRIFT = "drift"  # the level moved slowly
    UNJUDGED = "not yet judged"  # the level moved; whether a commit or the machine did it, is being judged


class Control(StrEnum):
    """Who speaks for the machine; the first that can goes before the others."""

    CANARIES = "canaries"
    BASELINES = "baselines"
    OTHERS = "other series"  # of projects without either
