"""Verdicts of comparisons, kinds of changes, and the controls that attribute them."""

from enum import StrEnum


class Verdict(StrEnum):
    """Verdict on one series between two commits, or at its newest one."""

    REGRESSED = "regressed"  # significantly worse, by at least the threshold
    IMPROVED = "improved"
    UNCHANGED = "unchanged"  # an equivalence test excludes a change that matters
    INCONCLUSIVE = "inconclusive"  # too much noise; the comparison has the number of runs needed
    INVALID = "invalid"  # throttled, wrong or failed: a reason and no number
    MISSING = "missing"  # nothing recorded


CHANGED = (Verdict.REGRESSED, Verdict.IMPROVED)


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


class ChangeKind(StrEnum):
    """Kind of a change of a series. Only a step is attributed to a commit and can raise an alert."""

    STEP = "step"  # a lasting change of the level
    NOT_SIGNIFICANT = "not significant"  # a step with q > 0.05 (Benjamini–Hochberg over the machine's series)
    MACHINE_STATE = "machine state"  # caused by the machine
    TRANSIENT = "transient"  # values that left their level and returned
    DRIFT = "drift"  # a slow change
    SLOW_DECLINE = "slow decline"  # worse than a year ago, in steps too small to be found one by one
    UNJUDGED = "not yet judged"  # detected; classification pending


class DeclineCause(StrEnum):
    """What a part of a slow decline is attributed to."""

    CODE = "code"
    HARNESS = "harness"  # the suite's own sources
    SOFTWARE = "software"  # driver and libraries
    GPU = "GPU"  # the rest of what the machine's controls show
    UNEXPLAINED = "unexplained"  # neither the controls nor the series' machine code changed


class Control(StrEnum):
    """Kinds of control series, in order of preference."""

    CANARIES = "canaries"
    BASELINES = "baselines"
    OTHERS = "other series"  # of projects without either
