"""The machines that record results: whether their data comes, and how far it can be trusted."""

from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Blueprint, abort, current_app, render_template

from ...analysis.gpu_sessions import pooled_noise
from ...analysis.thresholds import judged_by
from ...analysis.trust import RUNS, EqualCodeSpread, Trust, equal_code_spread, trust
from ...model.overview import State
from ...model.series import Status
from ...model.verdict import NoiseSource
from ...statistics.arrival import Pause
from ...statistics.distributions import Share, counted_share
from ...store import queries
from ...store.column_records import MachineHistory, Outcome, RunConditions, Software
from ...store.rejected_files import set_aside
from .. import clock
from ..figures.machine import MOST_TOLD, conditions_figure, detectable_figure
from ..request_context import project_or_404, store
from .runner_status import runners, standings_of

bp = Blueprint("machines", __name__)

_WORST = 30  # series in the table of smallest changes
_STRETCHES = 30  # of software
_QUARTERS = (0.5, 0.9)  # of the series, that the text names
_FACT_WORDS = {
    "card": "Card",
    "driver": "Driver",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "cudnn": "cuDNN",
    "triton": "Triton",
    "nvbench": "NVBench",
    "python": "Python",
    "power limit": "Power limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is worked out of one machine's history, once for all readers between two commits to the store."""

    history: MachineHistory
    trust: Trust
    conditions: tuple[RunConditions, ...]
    software: tuple[Software, ...]
    without_number: Share | None  # of what was measured
    reasons: tuple[Outcome, ...]  # of those


@bp.get("/<project:project>/machines")
def show(project: str) -> str:
    """All machines of a project, newest data first."""
    found = project_or_404(project)
    return render_template(
        "machines.html",
        machines=queries.machines(store(), found.name),
        canaries=queries.canaries(store(), found.name),
        equal_code=_equal_code(found.name),
        left_out=set_aside(store(), found.name),
        runners={each.name: each for each in runners(queries.arrivals(store(), found.name), (), clock.now())},
    )


@bp.get("/<project:project>/machines/<project:name>")
def one(project: str, name: str) -> str:
    """One machine: its data, its noise, its conditions and what it ran, over time."""
    found = project_or_404(project)
    machine = next((each for each in queries.machines(store(), found.name) if each.name == name), None)
    if machine is None:  # before anything is cached under a name that anybody may invent
        abort(404, f"{found.name} has no machine named “{name}”.")
    told = known(found.name, name)
    if told is None:
        abort(404, f"{found.name} has no machine named “{name}”.")
    here = [each for each in standings_of(found.name) if each.row.series.machine == name]
    arrivals = queries.arrivals(store(), found.name)
    controls = [each for each in told.history.series if each.series.is_control and each.series.metric.is_latency]
    return render_template(
        "machine.html",
        machine=machine,
        has_kernels=any(each.row.operator for each in here),
        runner=next((each for each in runners(arrivals, here, clock.now()) if each.name == name), None),
        longest=_moments(arrivals[name].longest) if name in arrivals else None,
        told=told,
        smallest=_quantiles(told.trust),
        run_counts=RUNS,
        most_told=MOST_TOLD,
        fact_words=_FACT_WORDS,
        assumed=sum(each.source is NoiseSource.ASSUMED for each in told.trust.detectable),
        worst=told.trust.detectable[:_WORST],
        stretches=told.software[:_STRETCHES],
        stopped=[each for each in here if each.state is State.STOPPED],
        held=[run for run in reversed(told.conditions) if run.throttled][:_STRETCHES],
        canaries=queries.canaries(store(), found.name).get(name, ()),
        over_time=conditions_figure(told.conditions, controls),
        smallest_figure=detectable_figure(told.trust.detectable) if told.trust.detectable else None,
    )


def known(project: str, name: str) -> Known | None:
    """What the page of one machine tells of its history; None without any."""
    threshold = current_app.config["THRESHOLD"]
    return store().cached(project, ("machine", name), lambda: _known(project, name, threshold))


def _known(project: str, machine: str, threshold: float) -> Known | None:
    history = queries.machine_history(store(), project, machine)
    if history is None:
        return None
    judged = judged_by(store(), project, threshold=threshold)
    wrong = tuple(each for each in history.outcomes if each.status in {Status.INVALID, Status.FAILED, Status.WRONG})
    numbers = sum(each.count for each in history.outcomes if each.status is Status.OK)
    failed = sum(each.count for each in wrong)
    return Known(
        history=history,
        trust=trust(
            history,
            threshold=judged.threshold,
            limits=judged.limits,
            pooled=pooled_noise(store(), project, machine),
        ),
        conditions=queries.conditions(store(), project, machine),
        software=queries.software(store(), project, machine),
        without_number=counted_share(failed, failed + numbers),
        reasons=wrong,
    )


def _quantiles(told: Trust) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Shares of the series, each with the smallest change that they show by the number of runs."""
    if not told.detectable:
        return ()
    ordered = [sorted(each.changes[place] for each in told.detectable) for place in range(len(RUNS))]
    return tuple(
        (share, tuple(its[min(int(share * len(its)), len(its) - 1)] for its in ordered)) for share in _QUARTERS
    )


def _moments(pause: Pause | None) -> tuple[datetime, datetime] | None:
    if pause is None:
        return None
    return datetime.fromtimestamp(pause.start_s, UTC), datetime.fromtimestamp(pause.end_s, UTC)


def _equal_code(project: str) -> dict[str, EqualCodeSpread]:
    """By machine, where enough pairs tell."""
    return store().cached(project, "equal code", lambda: _spreads(project))


def _spreads(project: str) -> dict[str, EqualCodeSpread]:
    pairs: dict[str, list[tuple[float, float]]] = {}
    for pair in queries.equal_code_pairs(store(), project):
        pairs.setdefault(pair.machine, []).append((pair.first_s, pair.second_s))
    spreads = {machine: equal_code_spread(measured) for machine, measured in pairs.items()}
    return {machine: spread for machine, spread in spreads.items() if spread is not None}
