"""The one check that a branch can require: what became of a pull request's commit, measured or not, on all machines."""

from collections.abc import Mapping, Sequence

from warpwatch.ci.gate.artefact import GateArtefact
from warpwatch.ci.pull_requests.plan import State
from warpwatch.ci.reports.check_run import CheckRun, Conclusion, conclusion

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


def measured(head: str, machines: Sequence[str], artefacts: Mapping[str, GateArtefact]) -> CheckRun:
    """Of one that was; both by the runner's label. The worst counts, and a machine that left nothing is the worst."""
    if not machines:
        return _check(
            head, "neutral", "not measured", "No GPU runners are named: the variable WARPWATCH_GPUS is empty."
        )
    found = {name: _machine(artefacts.get(name), head) for name in machines}
    worst = min((each for each, _ in found.values()), key=_WORST_FIRST.index)
    lines = [f"- {name}: {words}" for name, (_, words) in found.items()]
    titles = [f"{name} {words}" for name, (each, words) in found.items() if each == worst]
    return _check(head, worst, "; ".join(titles), "\n".join(lines))


def _machine(artefact: GateArtefact | None, head: str) -> tuple[Conclusion, str]:
    if artefact is None:
        return "failure", "measured nothing; the job's log says why"
    if artefact.head.hash != head:
        return "failure", "measured another commit"
    return conclusion(artefact), artefact.verdict.value + (", which blocks merging" if artefact.is_blocking else "")


def _check(head: str, told: Conclusion | None, title: str, summary: str) -> CheckRun:
    return CheckRun(name=NAME, head=head, conclusion=told, title=title[:255], summary=summary, annotations=())
