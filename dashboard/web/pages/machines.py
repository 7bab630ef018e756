"""Machines: data arrival, false alarms, smallest detectable changes, conditions, software."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from flask import Blueprint, abort, current_app, render_template

from ...analysis.gpu_sessions import pooled_noise
from ...analysis.thresholds import threshold_resolver
from ...analysis.trust import RUNS, Detectable, EqualCodeSpread, Trust, detectable_changes, equal_code_spread, trust
from ...model.machine import Canary, Machine
from ...model.naming import SOFTWARE_NAMES
from ...model.overview import RowState
from ...model.series import Status
from ...model.verdict import NoiseSource
from ...statistics.arrival import Pause
from ...statistics.distributions import Share, counted_share
from ...store import queries
from ...store.cache import ROW_BYTES
from ...store.column_records import MachineHistory, ReasonCount, RunConditions, Software
from ...store.rejected_files import rejected_files
from .. import clock
from ..figures.machine import MAX_CHANGE, conditions_figure, detectable_figure
from ..request_context import cached, project_or_404, store
from .runner_status import Runner, machine_standings, runners, states_by_machine

bp = Blueprint("machines", __name__)

_SAMPLE = 1200  # series of a machine, for the list
_WORST = 30  # series in the table of smallest changes
_PERIODS = 30  # of software
_QUANTILES = (0.5, 0.9)  # of the series
_THROTTLED_SHARE = 0.1  # of the runs, from which on throttling is a problem
_FACT_LABELS = {**SOFTWARE_NAMES, "card": "GPU", "driver": "Driver", "power limit": "Power limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineData:
    """History and trust of one machine, cached for all readers."""

    history: MachineHistory
    trust: Trust
    conditions: tuple[RunConditions, ...]
    software: tuple[Software, ...]
    failed: Share | None  # of the measurements
    reasons: tuple[ReasonCount, ...]  # of the failed ones


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSummary:
    """How far one machine's numbers can be trusted, and the command that shows or fixes its worst problem."""

    machine: Machine
    runner: Runner | None  # None: no results yet
    conditions: int  # newest runs whose clocks are known
    throttled: int  # of them
    drift: Canary | None  # the canary that drifted most at its last change
    detectable: float | None  # smallest detectable change of half of the series, with one run of each commit
    assumed: int  # series whose noise is assumed
    problem: str = ""
    command: str = ""


@bp.get("/<project:project>/machines")
def show(project: str) -> str:
    """All machines of a project, newest data first."""
    current = project_or_404(project)
    machines, canaries = queries.machines(store(), current.name), queries.canaries(store(), current.name)
    running = {runner.name: runner for runner in runners(queries.arrivals(store(), current.name), {}, clock.now())}
    return render_template(
        "machines.html",
        machines=machines,
        summaries=[
            _summary(
                machine,
                running.get(machine.name),
                canaries.get(machine.name, ()),
                *_sample(current.name, machine.name),
            )
            for machine in machines
        ],
        canaries=canaries,
        equal_code=_equal_code(current.name),
        rejected=rejected_files(store(), current.name),
        runners=running,
        max_change=MAX_CHANGE,
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
    standings = machine_standings(current.name, name)
    arrivals = queries.arrivals(store(), current.name)
    states = states_by_machine(standings)
    runner = next((row for row in runners(arrivals, states, clock.now()) if row.name == name), None)
    canaries = queries.canaries(store(), current.name).get(name, ())
    controls = [row for row in data.history.series if row.series.is_control and row.series.metric.is_latency]
    return render_template(
        "machine.html",
        machine=machine,
        has_kernels=any(row.row.operator for row in standings),
        runner=runner,
        summary=_summary(machine, runner, canaries, data.trust.detectable, data.conditions),
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
        canaries=canaries,
        over_time=conditions_figure(data.conditions, controls),
        smallest_figure=detectable_figure(data.trust.detectable) if data.trust.detectable else None,
    )


def _summary(
    machine: Machine,
    runner: Runner | None,
    canaries: Sequence[Canary],
    rows: Sequence[Detectable],
    runs: Sequence[RunConditions],
) -> RunnerSummary:
    conditions = [run for run in runs if run.knows_throttling]
    drifted = [canary for canary in canaries if canary.last_change is not None]
    summary = RunnerSummary(
        machine=machine,
        runner=runner,
        conditions=len(conditions),
        throttled=sum(run.throttled > 0 for run in conditions),
        drift=max(drifted, key=_drift, default=None),
        detectable=sorted(row.changes[0] for row in rows)[(len(rows) - 1) // 2] if rows else None,
        assumed=sum(row.source is NoiseSource.ASSUMED for row in rows),
    )
    problem, command = _problem(summary, len(rows))
    return replace(summary, problem=problem, command=command)


@cached(size=lambda sample: ROW_BYTES * (len(sample[0]) + len(sample[1])))
def _sample(project: str, machine: str) -> tuple[tuple[Detectable, ...], tuple[RunConditions, ...]]:
    """Detectable changes of a sample of the machine's series, and the conditions of its runs.

    All series take seconds of CPU time after each import (`machine_data`); their median needs no more than a sample.
    """
    history = queries.machine_history(store(), project, machine, sample=_SAMPLE)
    if history is None:
        return (), ()
    limits = threshold_resolver(store(), project, threshold=current_app.config["THRESHOLD"]).limits
    ours = sum(runs.series.is_ours for runs in history.series)
    share = ours / max(len(history.series), 1)
    rows = detectable_changes(
        history,
        limits=limits,
        pooled=pooled_noise(store(), project, machine, sample=_SAMPLE),
        family=max(round(share * queries.judged_times(store(), project)[machine]), ours, 1),
    )
    return rows, queries.conditions(store(), project, machine)


def _drift(canary: Canary) -> float:
    return abs(canary.last_change.magnitude) if canary.last_change is not None else 0.0


def _problem(summary: RunnerSummary, series: int) -> tuple[str, str]:
    """The first problem that applies, and the command to run on that machine."""
    if summary.runner is None or summary.runner.is_archived:
        return "", ""
    if summary.runner.is_overdue:
        return "no data: is the runner up?", "warpwatch doctor"
    if summary.throttled > _THROTTLED_SHARE * summary.conditions:
        return "throttled: check power limit, cooling and clocks", "warpwatch doctor"
    if series and summary.assumed > series / 2:
        return "noise unknown: measure one commit twice", "asv run --record-samples HEAD^!"
    return "", ""


@cached(size=lambda data: ROW_BYTES * len(data.conditions) if data is not None else 0)
def machine_data(project: str, machine: str) -> MachineData | None:
    """History and trust of the machine; None without results."""
    history = queries.machine_history(store(), project, machine)
    if history is None:
        return None
    judged = threshold_resolver(store(), project, threshold=current_app.config["THRESHOLD"])
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


@cached()
def _equal_code(project: str) -> dict[str, EqualCodeSpread]:
    """Spread of equal code by machine, for machines with enough pairs."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for pair in queries.equal_code_pairs(store(), project):
        pairs.setdefault(pair.machine, []).append((pair.first_s, pair.second_s))
    spreads = {machine: equal_code_spread(measured) for machine, measured in pairs.items()}
    return {machine: spread for machine, spread in spreads.items() if spread is not None}
