"""Which commits of a pull request are measured, and the check that a branch can require."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.text.comparison_labels import Quote
from warpwatch.dashboard.text.labels import short_hash
from warpwatch.dashboard.text.markdown import code_span

from ..code.code_comparison import CodeComparison
from ..forges.check_run import CheckRun, Conclusion
from ..gate.artefact import GateArtefact, plain
from ..policy.policy_model import Inconclusive
from ..reports import gate_labels
from ..reports.gate_check_run import conclusion
from .events import BUILT, EventCommit
from .repository import Changed


class GateState(StrEnum):
    """What happens with a commit."""

    MEASURE = "measure"
    SKIP = "skip"  # nothing relevant to measurements changed
    WAIT = "wait"  # for a maintainer's approval
    FAILED = "failed"  # it does not build, or its tests fail
    CANCELLED = "cancelled"  # the build, or the measurement
    TIMED_OUT = "timed-out"  # the build
    STOPPED = "stopped"  # the build, until a person lets it continue
    ERROR = "error"  # planning failed


_BUILDS = {
    "failure": (GateState.FAILED, "{head} does not build or fails its tests"),
    "cancelled": (GateState.CANCELLED, "the build of {head} was cancelled: run it again"),
    "timed_out": (GateState.TIMED_OUT, "the build of {head} ran out of time: run it again"),
    "startup_failure": (GateState.STOPPED, "the build of {head} could not start: see its workflow's page"),
    "action_required": (GateState.STOPPED, "the build of {head} waits for a maintainer to approve its workflow"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decision and its reason."""

    state: GateState
    reason: str
    pull: int
    base: str  # the merge base, which excludes what others merged meanwhile
    head: str


def plan(commit: EventCommit, changed: Changed, *, ignored: tuple[str, ...], code: CodeComparison | None) -> Plan:
    """Whether the commit is measured. An approved commit is never skipped.

    `ignored` are patterns of paths that no measurement depends on; `code` is the build's comparison of compiled code.
    """
    state, reason = _state(commit, changed, ignored, code)
    pull = commit.pull_request
    return Plan(state=state, reason=reason, pull=pull.number, base=changed.merge_base, head=pull.head)


def _state(
    commit: EventCommit, changed: Changed, ignored: tuple[str, ...], code: CodeComparison | None
) -> tuple[GateState, str]:
    head = commit.pull_request.head
    if commit.is_approved:
        return GateState.MEASURE, f"a maintainer approved {short_hash(head)} for testing"
    if commit.build != BUILT:
        other = (GateState.STOPPED, f"the build of {{head}} ended with {commit.build}: run it again")
        state, reason = _BUILDS.get(commit.build, other)
        return state, reason.format(head=short_hash(head))
    if commit.is_queued:
        return GateState.SKIP, "the pull request was measured before it was queued; main is measured after the merge"
    if changed.files is not None and all(_is_ignored(name, ignored) for name in changed.files):
        return GateState.SKIP, "only files without influence on measurements changed"
    if commit.is_fork:  # before `code`, which the fork's own build wrote
        return GateState.WAIT, f"it comes from a fork: a maintainer must review it and reply `/ok to test {head}`"
    if code is not None and _is_of(code, changed.merge_base, head) and _runs_the_same(code):
        return GateState.SKIP, "compiled code and host code are unchanged on every architecture"
    return GateState.MEASURE, "measured code changed"


def _is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_of(code: CodeComparison, base: str, head: str) -> bool:
    return (code.base, code.head) == (base, head)


def _runs_the_same(code: CodeComparison) -> bool:
    return bool(code.runs_same_code) and all(code.runs_same_code.values())


# The check that a branch can require: the result of a pull request's commit on all machines, measured or not.

NAME = "warpwatch gate"
_WORST_FIRST: tuple[Conclusion, ...] = ("failure", "neutral", "success")
_NOT_MEASURED: Mapping[GateState, tuple[Conclusion, str]] = {
    GateState.SKIP: ("success", "not measured"),
    GateState.WAIT: ("action_required", "waits for a maintainer's approval"),
    GateState.FAILED: ("failure", "not measured"),
    GateState.CANCELLED: ("cancelled", "cancelled"),
    GateState.TIMED_OUT: ("timed_out", "not measured"),
    GateState.STOPPED: ("action_required", "not measured"),
    GateState.ERROR: ("failure", "could not be planned"),
}


def not_measured(head: str, state: GateState, reason: str) -> CheckRun:
    """The check run of a commit that is not measured."""
    conclusion_, title = _NOT_MEASURED[state]
    return _check(head, conclusion_, title, f"{reason[:1].upper()}{reason[1:]}.")


def in_progress(head: str, base: str) -> CheckRun:
    """The check run of a commit that is about to be measured."""
    return _check(head, None, "is being measured", f"Measured against {base}; the log shows the progress.")


def measured(
    head: str, machines: Sequence[str], artefacts: Mapping[str, GateArtefact], inconclusive: Inconclusive = "neutral"
) -> CheckRun:
    """The check run of a measured commit: the worst conclusion of all machines; a missing artefact is a failure.

    `machines` and the keys of `artefacts` are labels of runners. `inconclusive` is the conclusion without machines.
    """
    if not machines:
        return _check(
            head, inconclusive, "not measured", "No GPU runners are named: the variable WARPWATCH_GPUS is empty."
        )
    conclusions = {name: _conclusion(artefacts.get(name), head) for name in machines}
    worst = min(conclusions.values(), key=_WORST_FIRST.index)
    lines = [f"- {name}: {_result(artefacts.get(name), head, code_span)}" for name in machines]
    titles = [f"{name} {_result(artefacts.get(name), head, str)}" for name in machines if conclusions[name] == worst]
    return _check(head, worst, "; ".join(titles), "\n".join(lines))


def _conclusion(artefact: GateArtefact | None, head: str) -> Conclusion:
    return "failure" if artefact is None or artefact.head.hash != head else conclusion(artefact)


def _result(artefact: GateArtefact | None, head: str, quote: Quote) -> str:
    """The result of a machine, for a title or a summary: "regressed, which blocks merging"."""
    if artefact is None:
        return "measured nothing; see the job's log"
    if artefact.head.hash != head:
        return "measured another commit"
    parts = [] if artefact.outcome is Outcome.FAILED else [artefact.outcome.value]
    parts += [gate_labels.failing(artefact, quote)] * bool(gate_labels.failing(artefact))
    parts += [] if artefact.fault is None else [quote(artefact.fault)]
    return "; ".join(parts) + (", which blocks merging" if artefact.is_blocking else "")


def _check(head: str, conclusion: Conclusion | None, title: str, summary: str) -> CheckRun:
    title = plain(title, 255)
    return CheckRun(name=NAME, head=head, conclusion=conclusion, title=title, summary=summary, annotations=())
