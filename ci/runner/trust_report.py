"""A/A test: repeated measurements of one commit, and the trust in results of this machine."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpwatch.dashboard.analysis.gpu_sessions import pooled_noise
from warpwatch.dashboard.analysis.trust import RUNS, Trust, trust
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.statistics.distributions import Share
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.column_records import RunConditions

from ..gate.asv_runner import AsvRuns

RUNS_NEEDED = 3  # fewer make two pairs at most
_PLACE = RUNS.index(3)  # of each commit: what a gate needs where something moved
_SHARP = 2  # times the threshold: the H200's recorded runs show 2.1 % with three runs each, by a threshold of 2 %


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
    numbers: int  # values with one, in all
    without: dict[str, int]  # values without, by status and reason


def measure_again(runs: AsvRuns, commit: str, count: int, say: Callable[[str], None]) -> None:
    """Measures a commit (full hash) so often, each run into the store. Raises GateError."""
    for number in range(count):
        say(f"A/A: run {number + 1} of {count} of {commit[:8]}")
        runs.run(commit)


def trust_report(store: Store, project: str, commit: str, *, threshold: float) -> TrustReport:
    """The report on the machine that measured the commit last. Raises TrustError."""
    found = queries.find_commit(store, project, commit)
    machine = _measured_last(store, project, found) if found is not None else None
    history = queries.machine_history(store, project, machine) if machine is not None else None
    if found is None or machine is None or history is None:
        raise TrustError(f"nothing was recorded of {commit[:8]}: does --bench name any benchmark, and does it build?")
    runs = [count for each in history.series for count in Counter(each.commit.tolist()).values()]
    without = Counter[str]()
    for each in history.outcomes:
        if each.status in {"invalid", "failed"}:
            without[f"{each.status}: {each.reason}" if each.reason else each.status] += each.count
    return TrustReport(
        machine=machine,
        commit=found.hash,
        runs=max(runs, default=0),
        trust=trust(history, threshold=threshold, pooled=pooled_noise(store, project, machine)),
        conditions=queries.conditions(store, project, machine),
        numbers=sum(each.count for each in history.outcomes if each.status == "ok"),
        without=dict(without),
    )


def _measured_last(store: Store, project: str, commit: Commit) -> str | None:
    """The machine with the newest run of the commit; None where no run says when it was."""
    runs = queries.measured_on(store, project, commit.hash)
    told = [(each.newest_run, each.machine) for each in runs if each.newest_run is not None]
    return max(told)[1] if told else None


def as_text(report: TrustReport) -> str:
    """Plain text; the last line is the verdict."""
    told = report.trust
    lines = [f"Trust in {report.machine} at {report.commit[:8]}, by up to {report.runs} runs of a commit"]
    alarms = told.beside
    if alarms is None:
        lines.append("  false alarms      unknown: no two runs of equal code lie within two hours")
    else:
        lines.append(
            f"  false alarms      {_of(alarms.told, 'comparisons of equal code')} told changed; in "
            f"{_of(alarms.families, 'checks')}"
        )
        lines.append(
            f"                    a bare threshold of {_percent(told.threshold)} would have called "
            f"{alarms.beyond_threshold.count}"
        )
        lines.append(
            f"  two runs differ   by {_percent(alarms.apart)} typically, 95 % of them by at most "
            f"{_percent(alarms.apart_most)}"
        )
    for place, runs in enumerate(RUNS):
        changes = sorted(each.changes[place] for each in told.detectable)
        if changes:
            half, most = (changes[min(int(share * len(changes)), len(changes) - 1)] for share in (0.5, 0.9))
            lines.append(
                f"  smallest change   {_percent(half)} for half of {len(changes)} series, {_percent(most)} for 90 % of "
                f"them, with {runs} run{'s' if runs > 1 else ''} of each commit"
            )
    lines += _conditions(report)
    missing = sum(report.without.values())
    lines.append(f"  without a number  {missing} of {missing + report.numbers}")
    lines += [
        f"                    {count} {reason}"
        for reason, count in sorted(report.without.items(), key=lambda e: -e[1])[:5]
    ]
    lines.append(f"  verdict           {verdict(report)}")
    return "\n".join(lines)


def verdict(report: TrustReport) -> str:
    """Whether a gate on this machine may be believed, in a sentence."""
    alarms, told = report.trust.beside, report.trust
    throttled = sum(each.throttled for each in report.conditions)
    changes = sorted(each.changes[_PLACE] for each in told.detectable)
    if alarms is None or report.runs < RUNS_NEEDED or not changes:
        return f"cannot tell: it takes {RUNS_NEEDED} runs of one commit within two hours"
    if alarms.families.count:
        return "not to be trusted yet: equal code was told changed; `warpwatch doctor` tells what may disturb it"
    if throttled:
        return f"with care: {throttled} measurements were throttled and have no number; see `warpwatch doctor`"
    half = changes[len(changes) // 2]
    if half > _SHARP * told.threshold:
        return (
            f"with care: no false alarm, but so much scatter that half of the series show no change below "
            f"{_percent(half)} with {RUNS[_PLACE]} runs; `warpwatch doctor` tells what may disturb it"
        )
    return f"to be trusted: no false alarm, no throttling, and half of the series show {_percent(half)}"


def as_json(report: TrustReport) -> dict[str, Any]:
    """JSON."""
    alarms = report.trust.beside
    return {
        "machine": report.machine,
        "commit": report.commit,
        "runs": report.runs,
        "threshold": report.trust.threshold,
        "false_alarms": None if alarms is None else _share(alarms.told),
        "families": None if alarms is None else _share(alarms.families),
        "beyond_threshold": None if alarms is None else _share(alarms.beyond_threshold),
        "apart": None if alarms is None else alarms.apart,
        "apart_95": None if alarms is None else alarms.apart_most,
        "smallest_changes": [
            {"series": each.series.key, "runs": dict(zip(map(str, RUNS), each.changes, strict=True))}
            for each in report.trust.detectable
        ],
        "clocks_hz": [each.clock_hz for each in report.conditions],
        "throttled": sum(each.throttled for each in report.conditions),
        "numbers": report.numbers,
        "without_number": report.without,
        "verdict": verdict(report),
    }


def _conditions(report: TrustReport) -> list[str]:
    low = [each.clock_low_hz for each in report.conditions if each.clock_low_hz is not None]
    high = [each.clock_high_hz for each in report.conditions if each.clock_high_hz is not None]
    if not low or not high:
        return ["  clocks            not told, as of CPU twins"]
    heat = [each.temperature_high_c for each in report.conditions if each.temperature_high_c is not None]
    throttled, of = sum(e.throttled for e in report.conditions), sum(e.measurements for e in report.conditions)
    lines = [
        f"  clocks            SM {min(low) / 1e6:.0f} to {max(high) / 1e6:.0f} MHz over {len(report.conditions)} runs"
    ]
    lines.append(
        f"  throttled         {throttled} of {of} measurements" + (f"; {max(heat):.0f} °C at most" if heat else "")
    )
    return lines


def _of(share: Share, what: str) -> str:
    return f"{share.count} of {share.of} {what} (95 %: {_percent(share.low)} to {_percent(share.high)})"


def _share(share: Share) -> dict[str, float]:
    return {"count": share.count, "of": share.of, "low": share.low, "high": share.high}


def store_of(folder: Path) -> str:
    """The A/A's own store, beside asv's results."""
    return f"sqlite:///{folder / '.asv' / 'trust.db'}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
