"""A/A test: measures one commit repeatedly, and reports how far this machine's results can be trusted."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.analysis.gpu_sessions import pooled_noise
from warpwatch.dashboard.analysis.trust import RUNS, Trust, trust
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.statistics.distributions import Share
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.column_records import RunConditions

from ..asv_checkout import AsvRuns

RUNS_NEEDED = 3  # fewer make one pair at most
_INDEX = RUNS.index(3)  # runs of each commit that a gate needs for a change
_SENSITIVE = 2  # times the threshold; the recorded H200 detects 2.1 % with three runs each, at a threshold of 2 %


class TrustError(Exception):
    """No report is possible; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustReport:
    """Trust in a machine, from its history with the A/A runs."""

    machine: str
    commit: str
    runs: int  # of one commit, at most
    trust: Trust
    conditions: tuple[RunConditions, ...]
    values: int  # valid results
    without_value: dict[str, int]  # results without a value, by status and reason


def measure_again(runs: AsvRuns, commit: str, count: int, say: Callable[[str], None]) -> None:
    """Measures a commit (full hash) `count` times and stores each run. Raises GateError."""
    for number in range(count):
        say(f"A/A: run {number + 1} of {count} of {commit[:8]}")
        runs.run(commit)


def trust_report(store: Store, project: str, commit: str, *, threshold: float) -> TrustReport:
    """The report on the machine that measured the commit last. Raises TrustError."""
    recorded = queries.find_commit(store, project, commit)
    machine = _newest_machine(store, project, recorded) if recorded is not None else None
    history = queries.machine_history(store, project, machine) if machine is not None else None
    if recorded is None or machine is None or history is None:
        raise TrustError(f"{commit[:8]} has no results: does --bench match a benchmark, and does the commit build?")
    runs = [count for series in history.series for count in Counter(series.commit.tolist()).values()]
    without_value = Counter[str]()
    for outcome in history.outcomes:
        if outcome.status in {"invalid", "failed"}:
            why = f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status
            without_value[why] += outcome.count
    return TrustReport(
        machine=machine,
        commit=recorded.hash,
        runs=max(runs, default=0),
        trust=trust(history, threshold=threshold, pooled=pooled_noise(store, project, machine)),
        conditions=queries.conditions(store, project, machine),
        values=sum(outcome.count for outcome in history.outcomes if outcome.status == "ok"),
        without_value=dict(without_value),
    )


def _newest_machine(store: Store, project: str, commit: Commit) -> str | None:
    """The machine with the newest run of the commit; None if no run has a time."""
    runs = queries.measured_on(store, project, commit.hash)
    dated = [(run.newest_run, run.machine) for run in runs if run.newest_run is not None]
    return max(dated)[1] if dated else None


def as_text(report: TrustReport) -> str:
    """Plain text; the last line is the verdict."""
    trust = report.trust
    lines = [f"Trust in {report.machine} at {report.commit[:8]}, by up to {report.runs} runs of a commit"]
    alarms = trust.same_session
    if alarms is None:
        lines.append("  false alarms      unknown: no two runs of equal code in one session")
    else:
        lines.append(
            f"  false alarms      {_of(alarms.alarms, 'comparisons of equal code')} reported as changed; in "
            f"{_of(alarms.families, 'checks')}"
        )
        lines.append(
            f"                    a plain threshold of {_percent(trust.threshold)} would have reported "
            f"{alarms.beyond_threshold.count}"
        )
        lines.append(
            f"  two runs differ   by {_percent(alarms.apart)} typically, 95 % of them by at most "
            f"{_percent(alarms.apart_most)}"
        )
    for index, runs in enumerate(RUNS):
        changes = sorted(each.changes[index] for each in trust.detectable)
        if changes:
            half, most = (changes[min(int(share * len(changes)), len(changes) - 1)] for share in (0.5, 0.9))
            lines.append(
                f"  detectable change {_percent(half)} for half of {len(changes)} series, {_percent(most)} for 90 % of "
                f"them, with {runs} run{'s' if runs > 1 else ''} of each commit"
            )
    lines += _conditions(report)
    missing = sum(report.without_value.values())
    lines.append(f"  without a value   {missing} of {missing + report.values}")
    lines += [
        f"                    {count} {reason}"
        for reason, count in sorted(report.without_value.items(), key=lambda item: -item[1])[:5]
    ]
    lines.append(f"  verdict           {verdict(report)}")
    return "\n".join(lines)


def verdict(report: TrustReport) -> str:
    """Whether a gate's verdicts on this machine can be trusted, and why."""
    trust, alarms = report.trust, report.trust.same_session
    throttled = sum(conditions.throttled for conditions in report.conditions)
    changes = sorted(each.changes[_INDEX] for each in trust.detectable)
    if alarms is None or report.runs < RUNS_NEEDED or not changes:
        return f"unknown: needs {RUNS_NEEDED} runs of one commit in one session"
    if alarms.families.count:
        return "not trusted: equal code was reported as changed; `warpwatch doctor` lists possible disturbances"
    if throttled:
        return f"limited: {throttled} measurements were throttled and have no value; see `warpwatch doctor`"
    half = changes[len(changes) // 2]
    if half > _SENSITIVE * trust.threshold:
        return (
            f"limited: no false alarm, but half of the series are too noisy to detect less than {_percent(half)} "
            f"with {RUNS[_INDEX]} runs; `warpwatch doctor` lists possible disturbances"
        )
    return f"trusted: no false alarm, no throttling, and half of the series detect {_percent(half)}"


def _conditions(report: TrustReport) -> list[str]:
    low = [each.clock_low_hz for each in report.conditions if each.clock_low_hz is not None]
    high = [each.clock_high_hz for each in report.conditions if each.clock_high_hz is not None]
    if not low or not high:
        return ["  clocks            not reported"]
    hottest = [each.temperature_high_c for each in report.conditions if each.temperature_high_c is not None]
    throttled, of = sum(e.throttled for e in report.conditions), sum(e.measurements for e in report.conditions)
    lines = [
        f"  clocks            SM {min(low) / 1e6:.0f} to {max(high) / 1e6:.0f} MHz over {len(report.conditions)} runs"
    ]
    lines.append(
        f"  throttled         {throttled} of {of} measurements"
        + (f"; {max(hottest):.0f} °C at most" if hottest else "")
    )
    return lines


def _of(share: Share, what: str) -> str:
    return f"{share.count} of {share.of} {what} (95 %: {_percent(share.ci_low)} to {_percent(share.ci_high)})"


def store_of(folder: Path) -> str:
    """Address of the A/A test's own store, in asv's folder."""
    return f"sqlite:///{folder / '.asv' / 'trust.db'}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
