"""Did a series change between two commits? The estimate, its interval, and the verdict of a whole family.

On logarithms, so that changes are relative. The estimate is the difference of the medians over runs. Its noise is the
scale of one run. Of runs taken beside each other on one card, re-runs tell it (`session_noise.py`). Else it is the
larger of what is known of (a) the scatter between runs of the same commit and (b) the history of the series and its
machine (`machine_noise.py`), and no less than what re-runs tell. The scatter inside a run bounds it from below. A
series with neither is given the whole scatter of its samples and no less than `UNKNOWN_BETWEEN_RUNS`, since one run
cannot tell how the next would differ.
"""

import math
from collections.abc import Sequence
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from ..model.comparison import Estimate
from ..model.metric import Better
from ..model.quantities import growth
from ..model.verdict import NoiseSource, Verdict
from .distributions import student_quantile, student_tail
from .noise import Noise

UNKNOWN_BETWEEN_RUNS = 0.01  # relative; published scatter between processes is 0.4-1.5 % on quiet GPUs
FAMILY_ERROR = 0.01  # chance that any of a family of unchanged series is called changed
NOT_UNCHANGED = 1.5  # times what matters: a change so large is called unchanged 1 time in 20 at most
_ONE_SIDED, _NORMAL_ONE_SIDED = 0.05, 1.645
TAIL_FREEDOM = 4  # Student's t of one run beside its like, however well its noise is known (README.md)
SMALLEST_NOISE = 0.0005


class RunValue(NamedTuple):
    """One run of a series at one commit."""

    value: float
    q25: float | None = None
    q75: float | None = None
    sample_count: int | None = None
    card: str | None = None  # the physical GPU; None if unknown, or if there is none


def compare(
    base: Sequence[RunValue],
    head: Sequence[RunValue],
    *,
    history_noise: Noise | None,
    threshold: float,
    drift: float = 0.0,
    unknown_between_runs: float = UNKNOWN_BETWEEN_RUNS,
    rerun_noise: Noise | None = None,
    beside: bool = False,
) -> Estimate | None:
    """Compares runs of two commits; None where a value at or below zero allows no relative change.

    `history_noise` is what the history of series and machine tells, None if unknown; `drift` the machine's relative
    change between the two, taken off. `rerun_noise` is what re-runs tell, those at the two commits among them. Where
    all runs lie `beside` each other it is enough, unless a long history is calmer still; else it is the least that the
    noise can be. Test and interval use the normal distribution, or Student's t where only the runs at the two commits
    tell the noise or what is told rests on few degrees of freedom.
    """
    runs = (*base, *head)
    if not base or not head or min([run.value for run in runs]) <= 0:
        return _of_zeros(base, head)
    logs = [[math.log(run.value) for run in side] for side in (base, head)]
    shift = level(logs[1]) - level(logs[0]) - math.log1p(drift)
    freedom = len(runs) - 2
    between = _between_runs(logs) if min(len(base), len(head)) >= 2 else None
    if rerun_noise is not None and beside and not is_long_and_calmer(history_noise, rerun_noise):
        history_noise, between = rerun_noise, None
    if between is None and history_noise is None:
        told = [(unknown_between_runs, NoiseSource.ASSUMED), (max(map(sample_scatter, runs)), NoiseSource.SAMPLES)]
    else:
        told = [(max(map(sample_error, runs)), NoiseSource.SAMPLES)]
        if history_noise is not None:
            told.append((max(history_noise.scale, SMALLEST_NOISE), history_noise.source))
        if between is not None:
            told.append((max(between, SMALLEST_NOISE), NoiseSource.RUNS))
    if rerun_noise is not None and not beside:
        told.append((max(rerun_noise.scale, SMALLEST_NOISE), NoiseSource.RERUNS))
    noise, source = max(told, key=itemgetter(0))
    error = noise * math.sqrt(1 / len(base) + 1 / len(head))
    few = known_by = history_noise.freedom if history_noise is not None else freedom if between is not None else None
    if few is not None and rerun_noise is not None and history_noise is rerun_noise:
        # Now and then a run lies off all others. It takes (n + 1) / 2 of those to move a median of n.
        few = min(few, TAIL_FREEDOM * ((min(len(base), len(head)) + 1) // 2))
    z = abs(shift) / error
    p = student_tail(z, few) if few is not None else math.erfc(z / math.sqrt(2))
    reach = student_quantile(few) if few is not None else 1.96
    settled = reach if history_noise is not None else 1.96  # more runs bring their own degrees of freedom
    wanted = math.ceil(2 * (settled * noise / math.log1p(threshold)) ** 2)
    return Estimate(
        change=growth(shift),
        ci_low=growth(shift - reach * error),
        ci_high=growth(shift + reach * error),
        noise=noise,
        noise_source=source,
        p_value=p,
        base_runs=len(base),
        head_runs=len(head),
        runs_needed=max(wanted - min(len(base), len(head)), 0),
        degrees_of_freedom=known_by,
        equivalence_bound=_largest(logs, drift, error, few),
    )


def level(values: Sequence[float]) -> float:
    """Their median; mostly there is one."""
    return values[0] if len(values) == 1 else median(values)


def is_long_and_calmer(history: Noise | None, reruns: Noise) -> bool:
    """Whether a long history has less noise than re-runs, so that it is used for runs of one session too."""
    return history is not None and history.freedom is None and history.scale <= reruns.scale


def compare_exact(base: Sequence[RunValue], head: Sequence[RunValue]) -> Estimate | None:
    """Compares runs of a quantity without noise: equal, or certainly not. From zero on, it grows by 100 %.

    None where the runs of one commit disagree, so that it is not exact here, or where a side has none.
    """
    sides = [{run.value for run in side} for side in (base, head)]
    if any(len(side) != 1 for side in sides):
        return None
    before, after = (side.pop() for side in sides)
    change = after / before - 1 if before else float(after > 0) - float(after < 0)
    return Estimate(
        change=change,
        ci_low=change,
        ci_high=change,
        noise=0.0,
        noise_source=NoiseSource.NONE,
        degrees_of_freedom=None,
        p_value=float(before == after),
        base_runs=len(base),
        head_runs=len(head),
        runs_needed=0,
        equivalence_bound=None,
    )


def judge(
    comparisons: Sequence[Estimate | None],
    better: Sequence[Better],
    *,
    threshold: float | Sequence[float],
    family_error: float = FAMILY_ERROR,
) -> tuple[Verdict, ...]:
    """The verdicts of a family, so that unchanged series give any false alarm with at most `family_error` (Holm).

    `threshold` is one for all, or each comparison's own, as it was compared with. REGRESSED and IMPROVED: changed by
    the family's test, and by at least `threshold`. UNCHANGED: changed by less, the interval reaches no further than
    `threshold` either side of the estimate, and an equivalence test excludes changes of `NOT_UNCHANGED` times
    `threshold`. Else INCONCLUSIVE. None is MISSING.
    What is exact is certain, so it neither belongs to the family nor makes it larger.
    """
    exact = {i for i, c in enumerate(comparisons) if c is not None and c.noise_source is NoiseSource.NONE}
    ordered = sorted((c.p_value, i) for i, c in enumerate(comparisons) if c is not None and i not in exact)
    changed = {i for i in exact if (c := comparisons[i]) is not None and c.change}
    for rank, (p, i) in enumerate(ordered):
        if p > family_error / (len(ordered) - rank):
            break
        changed.add(i)
    matters = threshold if isinstance(threshold, Sequence) else [threshold] * len(comparisons)
    verdicts = []
    for i, (comparison, direction, least) in enumerate(zip(comparisons, better, matters, strict=True)):
        if comparison is None:
            verdicts.append(Verdict.MISSING)
        elif i in changed and abs(comparison.change) >= least:
            worse = (comparison.change > 0) == (direction is Better.LOWER)
            verdicts.append(Verdict.REGRESSED if worse else Verdict.IMPROVED)
        elif is_equivalent(comparison, least):
            verdicts.append(Verdict.UNCHANGED)
        else:
            verdicts.append(Verdict.INCONCLUSIVE)
    return tuple(verdicts)


def is_equivalent(comparison: Estimate, least: float) -> bool:
    """Whether the change is below what matters, its interval narrow enough, and `NOT_UNCHANGED` times that excluded."""
    bound = comparison.equivalence_bound
    largest = abs(comparison.change) if bound is None else bound
    is_narrow = (comparison.ci_high - comparison.ci_low) / 2 <= least
    return abs(comparison.change) < least and is_narrow and largest < NOT_UNCHANGED * least


def _largest(sides: Sequence[Sequence[float]], drift: float, error: float, freedom: int | None) -> float:
    """The largest relative change that two one-sided tests leave possible (Schuirmann, Journal of Pharmacokinetics and
    Biopharmaceutics 15:657, 1987).

    Around the estimate that leaves more. Of runs that are now in one state of the machine, now in another, the
    medians of base and head may lie in different ones; the median difference of all pairs of runs (Hodges and Lehmann,
    Annals of Mathematical Statistics 34:598, 1963) does so less.
    """
    base, head = sides
    shifts = (level(head) - level(base), level([after - before for before in base for after in head]))
    reach = error * (student_quantile(freedom, 2 * _ONE_SIDED) if freedom is not None else _NORMAL_ONE_SIDED)
    return max(abs(growth(shift - math.log1p(drift) + far)) for shift in shifts for far in (-reach, reach))


def common_drift(changes: Sequence[float]) -> float:
    """The relative change that controls on one machine share; 0.0 unless at least three agree that there is one.

    Their median, if it stands three standard errors from zero and four of five moved its way.
    """
    if len(changes) < 3:
        return 0.0
    logs = [math.log1p(change) for change in changes if change > -1]
    middle = median(logs)
    scale = 1.4826 * median(abs(x - middle) for x in logs)
    error = max(1.2533 * scale / math.sqrt(len(logs)), 0.0005)
    same_way = sum((x > 0) == (middle > 0) for x in logs)
    return math.expm1(middle) if abs(middle) > 3 * error and same_way >= 0.8 * len(logs) else 0.0


def _of_zeros(base: Sequence[RunValue], head: Sequence[RunValue]) -> Estimate | None:
    """Zero to zero is no change (spilled bytes, say); anything else from or to zero has no ratio."""
    return None if any(run.value != 0 for run in (*base, *head)) else compare_exact(base, head)


def _between_runs(sides: Sequence[Sequence[float]]) -> float:
    """Pooled sample standard deviation of runs around their commit's mean, ddof 1 each."""
    squares = sum((x - sum(side) / len(side)) ** 2 for side in sides for x in side)
    return math.sqrt(squares / (sum(map(len, sides)) - len(sides)))


def sample_scatter(run: RunValue) -> float:
    """Relative standard deviation of a run's samples, from their quartiles as for normal ones; 0 if unknown."""
    if run.q25 is None or run.q75 is None:
        return 0.0
    return abs(run.q75 - run.q25) / 1.349 / abs(run.value)


def sample_error(run: RunValue) -> float:
    """Relative standard error of a run's median, as of independent normal samples; 0 if unknown."""
    return 1.2533 * sample_scatter(run) / math.sqrt(max(run.sample_count or 1, 1))
