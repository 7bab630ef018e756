"""Change of a series between two commits: estimate, confidence interval, and the verdicts of a family of series.

On logarithms, so that changes are relative. The estimate is the difference of the medians over runs. Its noise is the
scale of one run. For runs of one session it comes from re-runs (`session_noise.py`). Otherwise it is the largest of
(a) the scatter between runs of the same commit, (b) the noise by the history of the series and its machine
(`machine_noise.py`) and (c) the noise of re-runs. The scatter inside a run is a lower bound. A series with none of
these gets the scatter of its samples and at least `UNKNOWN_BETWEEN_RUNS`.
"""

import math
from collections.abc import Sequence
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from ..model.comparison import Estimate
from ..model.metric import Better
from ..model.quantities import relative_change
from ..model.verdict import NoiseSource, Verdict
from .distributions import critical_value, t_p_value
from .noise import Noise

UNKNOWN_BETWEEN_RUNS = 0.01  # relative; published scatter between processes is 0.4-1.5 % on quiet GPUs
FAMILY_ERROR = 0.01  # probability that any of a family of unchanged series is called changed
NOT_UNCHANGED = 1.5  # thresholds: a change so large is called unchanged in at most 5 % of cases
_TWO_SIDED, _NORMAL_TWO_SIDED = 0.05, 1.96
_ONE_SIDED, _NORMAL_ONE_SIDED = 0.05, 1.645
TAIL_DF = 4  # at most, of single runs in one session, however well their noise is known: heavy tails (README.md)
SMALLEST_NOISE = 0.0005
_MOST_ERRORS = 1e6  # errors of a run per distance; with a threshold near zero the number of runs would overflow


class RunValue(NamedTuple):
    """One run of a series at one commit."""

    value: float
    q25: float | None = None
    q75: float | None = None
    sample_count: int | None = None
    gpu: str | None = None  # UUID; None if unknown, or if there is none


def compare(
    base: Sequence[RunValue],
    head: Sequence[RunValue],
    *,
    history_noise: Noise | None,
    threshold: float,
    drift: float = 0.0,
    rerun_noise: Noise | None = None,
    same_session: bool = False,
) -> Estimate | None:
    """The relative change between runs of two commits; None if a value is not positive.

    `history_noise`: by the history of series and machine, None if unknown. `drift`: the machine's relative change
    between the commits, subtracted. `rerun_noise`: by re-runs, those at the two commits included; in the `same_session`
    it is used alone, unless a long history has less noise, otherwise it is a lower bound. Test and interval use
    Student's t if the noise has few degrees of freedom or comes from the compared runs alone, otherwise the normal
    distribution.
    """
    runs = (*base, *head)
    if not base or not head or min([run.value for run in runs]) <= 0:
        return _compare_zeros(base, head)
    logs = [[math.log(run.value) for run in side] for side in (base, head)]
    shift = level(logs[1]) - level(logs[0]) - math.log1p(drift)
    between = _between_runs(logs) if min(len(base), len(head)) >= 2 else None
    if rerun_noise is not None and same_session and not is_long_and_calmer(history_noise, rerun_noise):
        history_noise, between = rerun_noise, None
    if between is None and history_noise is None:
        noises = [(UNKNOWN_BETWEEN_RUNS, NoiseSource.ASSUMED), (max(map(sample_scatter, runs)), NoiseSource.SAMPLES)]
    else:
        noises = [(max(map(sample_error, runs)), NoiseSource.SAMPLES)]
        if history_noise is not None:
            noises.append((max(history_noise.scale, SMALLEST_NOISE), history_noise.source))
        if between is not None:
            noises.append((max(between, SMALLEST_NOISE), NoiseSource.RUNS))
    if rerun_noise is not None and not same_session:
        noises.append((max(rerun_noise.scale, SMALLEST_NOISE), NoiseSource.RERUNS))
    noise, source = max(noises, key=itemgetter(0))
    error = noise * math.sqrt(1 / len(base) + 1 / len(head))
    df = history_noise.df if history_noise is not None else len(runs) - 2 if between is not None else None
    test_df = df
    if df is not None and rerun_noise is not None and history_noise is rerun_noise:
        # Single runs are outliers now and then. It takes (n + 1) / 2 of those to move a median of n.
        test_df = min(df, TAIL_DF * ((min(len(base), len(head)) + 1) // 2))
    z = abs(shift) / error
    p = t_p_value(z, test_df) if test_df is not None else math.erfc(z / math.sqrt(2))
    critical = critical_value(_TWO_SIDED, test_df) if test_df is not None else _NORMAL_TWO_SIDED
    later = critical if history_noise is not None else _NORMAL_TWO_SIDED  # more runs bring their own degrees of freedom
    needed = runs_that_resolve(math.log1p(threshold), later * noise)
    return Estimate(
        change=relative_change(shift),
        ci_low=relative_change(shift - critical * error),
        ci_high=relative_change(shift + critical * error),
        noise=noise,
        noise_source=source,
        p_value=p,
        base_runs=len(base),
        head_runs=len(head),
        runs_needed=max(needed - min(len(base), len(head)), 0),
        degrees_of_freedom=df,
        equivalence_bound=_equivalence_bound(logs, drift, error, test_df),
    )


def runs_that_resolve(distance: float, error: float) -> int:
    """Runs of each commit that make a distance significant; `error`: of one run, times the critical value."""
    return math.ceil(2 * (error / max(distance, error / _MOST_ERRORS)) ** 2)


def level(values: Sequence[float]) -> float:
    """Median; fast for the usual single value."""
    return values[0] if len(values) == 1 else median(values)


def is_long_and_calmer(history: Noise | None, reruns: Noise) -> bool:
    """Whether a long history has less noise than re-runs, so that it is used for runs of one session too."""
    return history is not None and history.df is None and history.scale <= reruns.scale


def compare_exact(base: Sequence[RunValue], head: Sequence[RunValue]) -> Estimate | None:
    """Change of a quantity without noise; from zero it is 100 %. None if a side has no runs, or runs that differ."""
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


def family_verdicts(
    comparisons: Sequence[Estimate | None],
    better: Sequence[Better],
    *,
    threshold: float | Sequence[float],
    family_error: float = FAMILY_ERROR,
) -> tuple[Verdict, ...]:
    """Verdicts with a family-wise error rate of at most `family_error` (Holm).

    `threshold`: one for all, or one of each comparison, as it was compared with. REGRESSED and IMPROVED: significant
    and at least `threshold`. UNCHANGED: smaller, an interval of at most `threshold` on either side, and an equivalence
    test excludes changes of `NOT_UNCHANGED` thresholds. Otherwise INCONCLUSIVE. None is MISSING. Exact quantities are
    not part of the family.
    """
    exact = {i for i, c in enumerate(comparisons) if c is not None and c.noise_source is NoiseSource.NONE}
    ordered = sorted((c.p_value, i) for i, c in enumerate(comparisons) if c is not None and i not in exact)
    changed = {i for i in exact if (c := comparisons[i]) is not None and c.change}
    for rank, (p, i) in enumerate(ordered):
        if p > family_error / (len(ordered) - rank):
            break
        changed.add(i)
    thresholds = threshold if isinstance(threshold, Sequence) else [threshold] * len(comparisons)
    verdicts = []
    for i, (comparison, direction, least) in enumerate(zip(comparisons, better, thresholds, strict=True)):
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


def _equivalence_bound(sides: Sequence[Sequence[float]], drift: float, error: float, df: int | None) -> float:
    """The largest relative change that two one-sided tests do not exclude (Schuirmann, Journal of Pharmacokinetics and
    Biopharmaceutics 15:657, 1987).

    The larger bound of two estimates: the difference of medians, and the median difference of all pairs of runs (Hodges
    and Lehmann, Annals of Mathematical Statistics 34:598, 1963), which is more robust if the machine switches between
    two states.
    """
    base, head = sides
    shifts = (level(head) - level(base), level([after - before for before in base for after in head]))
    half = error * (critical_value(2 * _ONE_SIDED, df) if df is not None else _NORMAL_ONE_SIDED)
    return max(abs(relative_change(shift - math.log1p(drift) + end)) for shift in shifts for end in (-half, half))


def common_drift(changes: Sequence[float]) -> float:
    """The relative change that the controls of a machine share, or 0.0.

    The median of at least three, if it is three standard errors from zero and 80 % have its sign.
    """
    if len(changes) < 3:
        return 0.0
    logs = [math.log1p(change) for change in changes if change > -1]
    middle = median(logs)
    scale = 1.4826 * median(abs(x - middle) for x in logs)
    error = max(1.2533 * scale / math.sqrt(len(logs)), 0.0005)
    same_sign = sum((x > 0) == (middle > 0) for x in logs)
    return math.expm1(middle) if abs(middle) > 3 * error and same_sign >= 0.8 * len(logs) else 0.0


def _compare_zeros(base: Sequence[RunValue], head: Sequence[RunValue]) -> Estimate | None:
    """No change from zero to zero (spilled bytes, say); None if any value is not zero, as there is no ratio."""
    return None if any(run.value != 0 for run in (*base, *head)) else compare_exact(base, head)


def _between_runs(sides: Sequence[Sequence[float]]) -> float:
    """Pooled sample standard deviation of runs around their commit's mean, ddof 1 each."""
    squares = sum((x - sum(side) / len(side)) ** 2 for side in sides for x in side)
    return math.sqrt(squares / (sum(map(len, sides)) - len(sides)))


def sample_scatter(run: RunValue) -> float:
    """Relative standard deviation of a run's samples, from their quartiles if normal; 0 if unknown."""
    if run.q25 is None or run.q75 is None:
        return 0.0
    return abs(run.q75 - run.q25) / 1.349 / abs(run.value)


def sample_error(run: RunValue) -> float:
    """Relative standard error of a run's median for independent normal samples; 0 if unknown."""
    return 1.2533 * sample_scatter(run) / math.sqrt(max(run.sample_count or 1, 1))
