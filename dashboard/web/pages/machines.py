"""Machines: data arrival, false alarms, smallest detectable changes, conditions, software."""

from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Blueprint, abort, current_app, render_template

from ...analysis.gpu_sessions import pooled_noise
from ...analysis.thresholds import threshold_resolver
from ...analysis.trust import RUNS, EqualCodeSpread, Trust, equal_code_spread, trust
from ...model.overview import RowState
from ...model.series import Status
from ...model.verdict import NoiseSource
from ...statistics.arrival import Pause
from ...statistics.distributions import Share, counted_share
from ...store import queries
from ...store.column_records import MachineHistory, ReasonCount, RunConditions, Software
from ...store.rejected_files import rejected_files
from .. import clock
from ..figures.machine import MAX_CHANGE, conditions_figure, detectable_figure
from ..request_context import project_or_404, store
from .runner_status import runners, standings_of

bp = Blueprint("machines", __name__)

_WORST = 30  # series in the table of smallest changes
_PERIODS = 30  # of software
_QUANTILES = (0.5, 0.9)  # of the series
_FACT_LABELS = {
    "card": "GPU",
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
class MachineData:
    """History and trust of one machine, cached for all readers."""

    history: MachineHistory
    trust: Trust
    conditions: tuple[RunConditions, ...]
    software: tuple[Software, ...]
    failed: Share | None  # of the measurements
    reasons: tuple[ReasonCount, ...]  # of the failed ones


@bp.get("/<project:project>/machines")
def show(project: str) -> str:
    """All machines of a project, newest data first."""
    current = project_or_404(project)
    return render_template(
        "machines.html",
        machines=queries.machines(store(), current.name),
        canaries=queries.canaries(store(), current.name),
        equal_code=_equal_code(current.name),
        rejected=rejected_files(store(), current.name),
        runners={runner.name: runner for runner in runners(queries.arrivals(store(), current.name), (), clock.now())},
    )


@bp.get("/<project:project>/machines/<project:name>")
def one(project: str, name: str) -> str:
    """One machine: data arrival, noise, conditions and software over time."""
    current = project_or_404(project)
    machine = next((row for row in queries.machines(store(), current.name) if row.name == name), None)
    if machine is None:  # check first: clients choose the name, which is a cache key
        abort(404, f"{current.name} has no machine named “{name}”.")
    data = machine_data(current.name, name)
    if data is None:
        abort(404, f"{current.name} has no machine named “{name}”.")
    standings = [row for row in standings_of(current.name) if row.row.series.machine == name]
    arrivals = queries.arrivals(store(), current.name)
    controls = [row for row in data.history.series if row.series.is_control and row.series.metric.is_latency]
    return render_template(
        "machine.html",
        machine=machine,
        has_kernels=any(row.row.operator for row in standings),
        runner=next((row for row in runners(arrivals, standings, clock.now()) if row.name == name), None),
        longest=_moments(arrivals[name].longest) if name in arrivals else None,
        data=data,
        smallest=_quantiles(data.trust),
        run_counts=RUNS,
        max_change=MAX_CHANGE,
        fact_labels=_FACT_LABELS,
        assumed=sum(row.source is NoiseSource.ASSUMED for row in data.trust.detectable),
        worst=data.trust.detectable[:_WORST],
        software=data.software[:_PERIODS],
        stopped=[row for row in standings if row.state is RowState.STOPPED],
        throttled_runs=[run for run in reversed(data.conditions) if run.throttled][:_PERIODS],
        canaries=queries.canaries(store(), current.name).get(name, ()),
        over_time=conditions_figure(data.conditions, controls),
        smallest_figure=detectable_figure(data.trust.detectable) if data.trust.detectable else None,
    )


def machine_data(project: str, name: str) -> MachineData | None:
    """History and trust of the machine, cached; None without results."""
    threshold = current_app.config["THRESHOLD"]
    return store().cached(project, ("machine", name), lambda: _machine_data(project, name, threshold))


def _machine_data(project: str, machine: str, threshold: float) -> MachineData | None:
    history = queries.machine_history(store(), project, machine)
    if history is None:
        return None
    judged = threshold_resolver(store(), project, threshold=threshold)
    reasons = tuple(row for row in history.outcomes if row.status in {Status.INVALID, Status.FAILED, Status.WRONG})
    valid = sum(row.count for row in history.outcomes if row.status is Status.OK)
    failed = sum(row.count for row in reasons)
    return MachineData(
        history=history,
        trust=trust(
            history,
            threshold=judged.threshold,
            limits=judged.limits,
            pooled=pooled_noise(store(), project, machine),
        ),
        conditions=queries.conditions(store(), project, machine),
        software=queries.software(store(), project, machine),
        failed=counted_share(failed, failed + valid),
        reasons=reasons,
    )


def _quantiles(trust: Trust) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Shares of the series, each with its smallest detectable change for each number of runs."""
    if not trust.detectable:
        return ()
    by_runs = [sorted(row.changes[index] for row in trust.detectable) for index in range(len(RUNS))]
    return tuple(
        (share, tuple(changes[min(int(share * len(changes)), len(changes) - 1)] for changes in by_runs))
        for share in _QUANTILES
    )


def _moments(pause: Pause | None) -> tuple[datetime, datetime] | None:
    if pause is None:
        return None
    return datetime.fromtimestamp(pause.start_s, UTC), datetime.fromtimestamp(pause.end_s, UTC)


def _equal_code(project: str) -> dict[str, EqualCodeSpread]:
    """Spread of equal code by machine, for machines with enough pairs."""
    return store().cached(project, "equal code", lambda: _spreads(project))


def _spreads(project: str) -> dict[str, EqualCodeSpread]:
    pairs: dict[str, list[tuple[float, float]]] = {}
    for pair in queries.equal_code_pairs(store(), project):
        pairs.setdefault(pair.machine, []).append((pair.first_s, pair.second_s))
    spreads = {machine: equal_code_spread(measured) for machine, measured in pairs.items()}
    return {machine: spread for machine, spread in spreads.items() if spread is not None}
