"""Changes of series that only different GPUs of one model measured, tested against the scatter of unchanged series.

`gpu_effects.py` estimates what unchanged code would show on the two GPUs. How far a series scatters around that is
its own: estimated from the deviations of it and similar series in other pairs of sessions, by moderated variances as in
`session_noise.py`. A series' variance is an inverse chi-square draw, so that its deviation is Student's t: heavy tails
where little is known of the series, lighter ones with its history, never lighter than those of a single run.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.comparison import AcrossGpus, Estimate
from ..model.metric import Better
from ..model.quantities import relative_change
from ..model.verdict import NoiseSource, Verdict
from .comparison import TAIL_DF, is_equivalent
from .distributions import SIGNIFICANT_Q, critical_value, q_values, t_p_value
from .gpu_effects import Deviations, Floats, SessionEffects
from .session_noise import RerunScatter, VariancePrior, VarianceTrend, moderated

_ENOUGH_ALIKE = 30  # series of one kind, from which on their scatter is estimated from them alone
_OUTLYING = 4.0  # standardised deviations; larger ones are outliers (Phipson et al., AoAS 10:946, 2016)
_SMALLEST = 0.01  # mean square of standardised deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """How far an unchanged series deviates, in multiples of what is typical of the two sessions."""

    scale: float
    df: int


def standardised(effects: SessionEffects) -> Floats:
    """The deviation of each reference from what the others predict, in standard deviations."""
    found = effects.left_out
    return np.asarray(found.deviation / np.sqrt(effects.scatter**2 + found.variance))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSeries:
    """What a series did as a reference of one pair of sessions."""

    key: str
    is_ours: bool
    level_s: float
    deviation: float  # standardised


class Scatters:
    """The scatter of each series of a machine, by its own deviations in earlier sessions and those of others."""

    def __init__(self, before: Iterable[ReferenceSeries], now: Iterable[ReferenceSeries]) -> None:
        """`now`: of the two sessions under comparison. A series is not judged by its own deviation there."""
        before = list(before)
        self._own = {key: _scatter_of(its) for key, its in _by_key(before).items()}
        everything = _by_key([*before, *now])
        alike = {
            is_ours: [_scatter_of(its, most=_OUTLYING) for its in everything.values() if its[0].is_ours == is_ours]
            for is_ours in (False, True)
        }
        self._trends = {
            is_ours: VarianceTrend(own if len(own) >= _ENOUGH_ALIKE else [*own, *alike[not is_ours]])
            for is_ours, own in alike.items()
        }
        self._lent: dict[tuple[bool, int], VariancePrior | None] = {}

    def of(self, key: str, level_s: float, *, is_ours: bool) -> Scatter:
        near = round(2 * math.log2(level_s))
        if (is_ours, near) not in self._lent:
            self._lent[is_ours, near] = self._trends[is_ours].prior(2 ** (near / 2))
        own, machine = self._own.get(key), self._lent[is_ours, near]
        noise = moderated(own, machine)
        if noise is None:  # of few series: as is typical, with the tails of a small sample
            return Scatter(scale=1.0, df=2)
        known = (own.df if own is not None else 0) + (machine.df if machine is not None else 0)
        return Scatter(scale=noise.scale, df=min(max(round(known), 1), TAIL_DF))


def _by_key(references: Iterable[ReferenceSeries]) -> dict[str, list[ReferenceSeries]]:
    found: dict[str, list[ReferenceSeries]] = {}
    for each in references:
        found.setdefault(each.key, []).append(each)
    return found


def _scatter_of(references: Sequence[ReferenceSeries], most: float = math.inf) -> RerunScatter:
    squares = [min(abs(each.deviation), most) ** 2 for each in references]
    return RerunScatter(
        level=references[-1].level_s,
        variance=max(math.fsum(squares) / len(squares), _SMALLEST),
        df=len(squares),
    )


def across_gpus(
    effects: SessionEffects, found: Deviations, scatters: Sequence[Scatter], *, runs: Sequence[tuple[int, int]]
) -> list[tuple[Estimate, AcrossGpus]]:
    """The change of each series with the effects of GPU, run and software taken off; q-values among these.

    `runs` of base and of head. They do not narrow the interval: what a GPU does to a series is in all of its runs.
    """
    estimates = []
    spreads = []
    for moved, variance, scatter, (base, head) in zip(
        found.deviation.tolist(), found.variance.tolist(), scatters, runs, strict=True
    ):
        error = math.sqrt((effects.scatter * scatter.scale) ** 2 + variance)
        reach = critical_value(0.05, scatter.df) * error
        most = critical_value(0.1, scatter.df) * error
        spreads.append(reach)
        estimates.append(
            Estimate(
                change=relative_change(moved),
                ci_low=relative_change(moved - reach),
                ci_high=relative_change(moved + reach),
                p_value=t_p_value(abs(moved) / error, scatter.df),
                noise=error / math.sqrt(2),
                noise_source=NoiseSource.REFERENCES,
                degrees_of_freedom=scatter.df,
                base_runs=base,
                head_runs=head,
                runs_needed=0,
                equivalence_bound=max(abs(relative_change(moved - most)), abs(relative_change(moved + most))),
            )
        )
    chances = q_values([estimate.p_value for estimate in estimates], len(estimates))
    return [
        (
            estimate,
            AcrossGpus(
                expected=relative_change(expected),
                spread=relative_change(reach),
                references=len(effects.references),
                q_value=chance,
            ),
        )
        for estimate, expected, reach, chance in zip(estimates, found.expected.tolist(), spreads, chances, strict=True)
    ]


def judge_across_gpus(estimate: Estimate, across: AcrossGpus, better: Better, threshold: float) -> Verdict:
    """Changed with a q of at most 0.05 and by at least the threshold; unchanged by the equivalence test of a check.

    The false discovery rate is held, as for steps, and not the family-wise error of a check on one GPU: a change across
    GPUs is one to confirm on one GPU.
    """
    if across.q_value <= SIGNIFICANT_Q and abs(estimate.change) >= threshold:
        return Verdict.REGRESSED if (estimate.change > 0) == (better is Better.LOWER) else Verdict.IMPROVED
    return Verdict.UNCHANGED if is_equivalent(estimate, threshold) else Verdict.INCONCLUSIVE
