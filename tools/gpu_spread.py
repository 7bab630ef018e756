"""How well a change of a kernel is distinguished from what another GPU, run or harness does, on a recorded history.

    WARPWATCH_DATABASE=/tmp/spread.db warpwatch import perf_suite/results --project warpwatch --repository .
    python -m tools.gpu_spread /tmp/spread.db --project warpwatch

Each pair of neighbouring sessions on different GPUs of one model, and each noise family of times, is judged as
`warpwatch check` judges it, with one run a side. Printed are

- leave-one-out: each baseline as if it were our kernel, predicted from all other references. Whatever is reported as
  changed is false, unless software changed: torch.compile generates and tunes its kernels anew in each run. The tail
  is that of the deviations over their scatter: the degrees of freedom of Student's t, by maximum likelihood.
- planted changes in those of our series whose machine code did not change: in one series alone, with the others as
  references; and in all series of a kernel, of which then none is a reference.
- histories: steps in the GPU-adjusted values of baselines, which no commit changed, and of ours. Baselines' steps are
  false unless their library or their tuning changed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from warpwatch.dashboard.analysis.gpu_history import session_chains
from warpwatch.dashboard.analysis.gpu_sessions import (
    Rooflines,
    SeriesOfPair,
    SessionPair,
    neighbours,
    project_rooflines,
    session_pair,
)
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.detection import SMALLEST_CHANGE
from warpwatch.dashboard.statistics.gpu_effects import Deviations
from warpwatch.dashboard.statistics.gpu_history import detect_across_gpus
from warpwatch.dashboard.statistics.gpu_spread import Scatter, Scatters, across_gpus, judge_across_gpus
from warpwatch.dashboard.store import Store, queries

_CHANGES = (0.03, 0.05, 0.1, 0.2)
_FEWEST = 15  # series of ours with unchanged code in two sessions, from which changes are planted
_TUNED_ANEW = frozenset({"torch_compile"})
_CHANGED = frozenset({Verdict.REGRESSED, Verdict.IMPROVED})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """Unchanged series of one pair of sessions, each predicted without itself."""

    series: tuple[SeriesOfPair, ...]
    pair: SessionPair
    rooflines: Rooflines
    deviations: Deviations
    scatters: tuple[Scatter, ...]

    def standardised(self) -> NDArray[np.float64]:
        """The deviations over the scatter of their series between these sessions."""
        scales = np.array([scatter.scale for scatter in self.scatters])
        variances = self.pair.effects.scatter**2 + self.deviations.variance
        return np.asarray(self.deviations.deviation / (scales * np.sqrt(variances)))

    def is_tuned(self) -> NDArray[np.bool_]:
        """Whether each is of a baseline that is tuned anew in each run."""
        return np.array([each.series.implementation in _TUNED_ANEW for each in self.series], dtype=bool)

    def judged(self, planted: NDArray[np.float64], threshold: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each is reported as changed, and whether its interval holds the planted change (logarithms)."""
        found = Deviations(
            expected=self.deviations.expected,
            deviation=self.deviations.deviation + planted,
            variance=self.deviations.variance,
        )
        compared = across_gpus(self.pair.effects, found, self.scatters, runs=[(1, 1)] * len(self.series))
        changed = [
            judge_across_gpus(estimate, across, Better.LOWER, threshold) in _CHANGED for estimate, across in compared
        ]
        holds = [
            estimate.ci_low <= math.expm1(change) <= estimate.ci_high
            for (estimate, _), change in zip(compared, planted.tolist(), strict=True)
        ]
        return np.array(changed, dtype=bool), np.array(holds, dtype=bool)


@click.command()
@click.argument("database")
@click.option("--project", required=True)
@click.option("--threshold", default=0.02, show_default=True)
@click.option("--metric", "families", multiple=True, default=("latency",), show_default=True, help="Noise families.")
def main(database: str, project: str, threshold: float, families: Sequence[str]) -> None:
    """Print a line for each pair of sessions, then the sums."""
    store = Store(database)
    baselines: list[Trial] = []
    ours: list[Trial] = []
    rooflines = project_rooflines(store, project, queries.project_workloads(store, project))
    for machine, family, pair, before in _pairs(store, project, families, rooflines):
        baselines.append(_trial(pair, before, rooflines, is_ours=False))
        ours.append(_trial(pair, before, rooflines, is_ours=True))
        said = f"{len(baselines[-1].series)} baselines, {len(ours[-1].series)} of ours"
        effects = pair.effects
        click.echo(
            f"{machine} {family}: {said}; unchanged code scatters by {effects.scatter:.2%},"
            f" calls take {effects.launch_s * 1e6:+.2f} us"
        )
    _leave_one_out("leave-one-out, baselines", baselines, threshold)
    _leave_one_out("leave-one-out, ours", ours, threshold)
    ours = [trial for trial in ours if len(trial.series) >= _FEWEST]
    for change in _CHANGES:
        _planted(ours, change, threshold)
    for machine in rooflines.limits:
        _histories(store, project, machine, families)


def _pairs(
    store: Store, project: str, families: Sequence[str], rooflines: Rooflines
) -> Iterator[tuple[str, str, SessionPair, Sequence[SessionPair]]]:
    """Machine, noise family, each pair of sessions on two GPUs, and the other pairs that a check would know."""
    for machine in rooflines.limits:
        history = queries.machine_history(store, project, machine)
        software = queries.commit_software(store, project, machine)
        for (_, family), found in neighbours(history, software).items() if history is not None else ():
            if family not in families:
                continue
            pairs = [
                pair
                for sessions, measured in found.items()
                if (pair := session_pair(sessions, measured, rooflines)) is not None
            ]
            for pair in pairs:
                (_, base), (head, gpu) = pair.sessions
                if base != gpu:
                    yield (
                        machine,
                        family,
                        pair,
                        [other for other in pairs if head not in {session[0] for session in other.sessions}],
                    )


def _trial(pair: SessionPair, before: Sequence[SessionPair], rooflines: Rooflines, *, is_ours: bool) -> Trial:
    references = [each for each in pair.measured if each.is_reference]
    places = [place for place, each in enumerate(references) if _is_of(each, is_ours=is_ours)]
    series = tuple(references[place] for place in places)
    known = Scatters([each for other in before for each in other.references], pair.references)
    return Trial(
        series=series,
        pair=pair,
        rooflines=rooflines,
        deviations=pair.effects.left_out.take(places),
        scatters=tuple(known.of(each.series.key, each.base_s, is_ours=is_ours) for each in series),
    )


def _is_of(measured: SeriesOfPair, *, is_ours: bool) -> bool:
    return measured.series.is_ours if is_ours else measured.series.is_baseline


def _histories(store: Store, project: str, machine: str, families: Sequence[str]) -> None:
    history = queries.machine_history(store, project, machine)
    series = {runs.series.key: runs.series for runs in history.series} if history is not None else {}
    every = session_chains(store, project, machine)
    for title, chosen in (
        ("baselines", lambda one: one.is_baseline and one.implementation not in _TUNED_ANEW),
        ("baselines that are tuned anew", lambda one: one.implementation in _TUNED_ANEW),
        ("ours", lambda one: one.is_ours),
    ):
        chains = [
            chain
            for key, chain in every.items()
            if key in series and chosen(series[key]) and series[key].metric.noise_family in families
        ]
        points = sum(len(chain) - len(chain.parts) for chain in chains)
        steps = sum(len(detect_across_gpus(chain, smallest_change=SMALLEST_CHANGE).changes) for chain in chains)
        click.echo(f"{machine} histories, {title}: {steps} steps in {points} points of {len(chains)} series")


def _leave_one_out(title: str, trials: Sequence[Trial], threshold: float) -> None:
    trials = [trial for trial in trials if trial.series]
    changed, holds = (
        np.concatenate(columns)
        for columns in zip(*(trial.judged(np.zeros(len(trial.series)), threshold) for trial in trials), strict=True)
    )
    is_tuned = np.concatenate([trial.is_tuned() for trial in trials])
    tail_df, _, _ = student_t.fit(np.concatenate([trial.standardised()[~trial.is_tuned()] for trial in trials]), floc=0)
    click.echo(
        f"{title}: {len(changed)} in {len(trials)} pairs of sessions, {changed.mean():.2%} reported as changed by"
        f" {threshold:.0%} or more, {changed[~is_tuned].mean():.2%} without torch.compile's; 95 % intervals hold"
        f" {holds.mean():.1%}; tail t{tail_df:.1f}"
    )


def _planted(trials: Sequence[Trial], change: float, threshold: float) -> None:
    """In each series alone, and in all series of a kernel: an operator's implementation."""
    alone: list[float] = []
    together: list[float] = []
    holds: list[bool] = []
    for trial in trials:
        found: list[bool] = []
        found_together: list[bool] = []
        groups: dict[str, list[int]] = {}
        for place, each in enumerate(trial.series):
            groups.setdefault(f"{each.series.suite} {each.series.implementation}", []).append(place)
        changes = [math.log1p(sign * change) for sign in (1, -1)]
        for planted in changes:
            for place in range(len(trial.series)):
                found.append(bool(_judged(trial, [place], planted, threshold)[0][0]))
        for places in groups.values():
            without = _without(trial, places)
            if without is not None:
                for planted in changes:
                    changed, held = _judged(without, places, planted, threshold)
                    found_together.extend(changed.tolist())
                    holds.extend(held.tolist())
        alone.append(float(np.mean(found)))
        together.append(float(np.mean(found_together)))
    click.echo(
        f"planted ±{change:.0%} in ours, median of {len(trials)} pairs of sessions: found {np.median(alone):.0%} alone,"
        f" {np.median(together):.0%} with its kernel (intervals hold {np.mean(holds):.1%})"
    )


def _judged(
    trial: Trial, places: list[int], planted: float, threshold: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    changes = np.zeros(len(trial.series))
    changes[places] = planted
    changed, holds = trial.judged(changes, threshold)
    return changed[places], holds[places]


def _without(trial: Trial, places: list[int]) -> Trial | None:
    """The trial with some series that are no references; None if too few remain."""
    gone = {trial.series[place].series.key for place in places}
    rooflines = trial.rooflines
    kept = [each for each in trial.pair.measured if each.series.key not in gone]
    pair = session_pair(trial.pair.sessions, kept, rooflines)
    if pair is None:
        return None
    found = pair.effects.of(rooflines.latencies([trial.series[place] for place in places]))
    columns = []
    for name in ("expected", "deviation", "variance"):
        column = getattr(trial.deviations, name).copy()
        column[places] = getattr(found, name)
        columns.append(column)
    return Trial(
        series=trial.series,
        pair=pair,
        rooflines=rooflines,
        deviations=Deviations(expected=columns[0], deviation=columns[1], variance=columns[2]),
        scatters=trial.scatters,
    )


if __name__ == "__main__":
    main()
