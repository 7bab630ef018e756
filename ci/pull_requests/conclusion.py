"""The one check that a branch can require: what became of a pull request's commit, measured or not, on all machines."""

from collections.abc import Mapping, Sequence

from warpwatch.ci.gate.artefact import GateArtefact, GateVerdict, Inconclusive, plain
from warpwatch.ci.pull_requests.plan import State
from warpwatch.ci.reports import words
from warpwatch.ci.reports.check_run import CheckRun, Conclusion, conclusion
from warpwatch.dashboard.code_span import code_span

NAME = "warpwatch gate"
_WORST_FIRST: tuple[Conclusion, ...] = ("failure", "neutral", "success")
_NOT_MEASURED: Mapping[State, tuple[Conclusion, str]] = {
    State.SKIP: ("success", "not measured"),
    State.WAIT: ("action_required", "waits for a maintainer's word"),
    State.FAILED: ("failure", "not measured"),
    State.CANCELLED: ("cancelled", "cancelled"),
    State.TIMED_OUT: ("timed_out", "not measured"),
    State.STOPPED: ("action_required", "not measured"),
    State.ERROR: ("failure", "could not be planned"),
}


def not_measured(head: str, state: State, reason: str) -> CheckRun:
    """Of a commit that the plan does not have measured."""
    told, title = _NOT_MEASURED[state]
    return _check(head, told, title, f"{reason[:1].upper()}{reason[1:]}.")


def in_progress(head: str, base: str) -> CheckRun:
    """Of one that is about to be measured."""
    return _check(head, None, "is being measured", f"Measured against {base}; the log says how far it is.")


def measured(
    head: str, machines: Sequence[str], artefacts: Mapping[str, GateArtefact], inconclusive: Inconclusive = "neutral"
) -> CheckRun:
    """Of one that was; both by the runner's label. The worst counts, and a machine that left nothing is the worst.

    `inconclusive` is what the base's policy makes of a commit that no machine was to measure.
    """
    if not machines:
        return _check(
            head, inconclusive, "not measured", "No GPU runners are named: the variable WARPWATCH_GPUS is empty."
        )
    found = {name: _conclusion(artefacts.get(name), head) for name in machines}
    worst = min(found.values(), key=_WORST_FIRST.index)
    lines = [f"- {name}: {_words(artefacts.get(name), head, code_span)}" for name in machines]
    titles = [f"{name} {_words(artefacts.get(name), head, str)}" for name in machines if found[name] == worst]
    return _check(head, worst, "; ".join(titles), "\n".join(lines))


def _conclusion(artefact: GateArtefact | None, head: str) -> Conclusion:
    return "failure" if artefact is None or artefact.head.hash != head else conclusion(artefact)


def _words(artefact: GateArtefact | None, head: str, quote: words.Quote) -> str:
    """What became of a machine, for a title or a summary: "regressed, which blocks merging"."""
    if artefact is None:
        return "measured nothing; the job's log says why"
    if artefact.head.hash != head:
        return "measured another commit"
    told = [] if artefact.verdict is GateVerdict.FAILED else [artefact.verdict.value]
    told += [words.failing(artefact, quote)] * bool(words.failing(artefact))
    told += [] if artefact.fault is None else [quote(artefact.fault)]
    return "; ".join(told) + (", which blocks merging" if artefact.is_blocking else "")


def _check(head: str, told: Conclusion | None, title: str, summary: str) -> CheckRun:
    return CheckRun(name=NAME, head=head, conclusion=told, title=plain(title, 255), summary=summary, annotations=())
