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
from .events import BUILT, Asked
from .repository import Changed


class State(StrEnum):
    """The state of a commit."""

    MEASURE = "measure"
    SKIP = "skip"  # nothing that is measured changed: as good as unchanged
    WAIT = "wait"  # for a maintainer's word
    FAILED = "failed"  # it does not build, or its tests fail: that is told already
    CANCELLED = "cancelled"  # the build, or the measuring
    TIMED_OUT = "timed-out"  # the build
    STOPPED = "stopped"  # the build, which somebody has to let go on
    ERROR = "error"  # nobody could plan


_BUILDS = {
    "failure": (State.FAILED, "{head} does not build or fails its tests"),
    "cancelled": (State.CANCELLED, "the build of {head} was cancelled: run it again"),
    "timed_out": (State.TIMED_OUT, "the build of {head} ran out of time: run it again"),
    "startup_failure": (State.STOPPED, "the build of {head} could not start: its workflow's page says why"),
    "action_required": (State.STOPPED, "the build of {head} waits for a maintainer to approve its workflow"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decision and its reason."""

    state: State
    reason: str
    pull: int
    base: str  # the merge base: what others merged meanwhile is not this pull request's
    head: str


def plan(asked: Asked, changed: Changed, *, ignored: tuple[str, ...], code: CodeComparison | None) -> Plan:
    """`ignored` are patterns of paths that no measurement depends on; `code` is what the build told, if it did.

    A maintainer's word is enough to measure: an approved commit is never skipped.
    """
    state, reason = _state(asked, changed, ignored, code)
    pull = asked.pull_request
    return Plan(state=state, reason=reason, pull=pull.number, base=changed.merge_base, head=pull.head)


def _state(asked: Asked, changed: Changed, ignored: tuple[str, ...], code: CodeComparison | None) -> tuple[State, str]:
    head = asked.pull_request.head
    if asked.is_approved:
        return State.MEASURE, f"a maintainer said that {short_hash(head)} may be tested"
    if asked.build != BUILT:
        other = (State.STOPPED, f"the build of {{head}} ended with {asked.build}: run it again")
        state, words = _BUILDS.get(asked.build, other)
        return state, words.format(head=short_hash(head))
    if asked.is_queued:
        return State.SKIP, "its pull request was measured before it was queued; main is measured after the merge"
    if changed.files is not None and all(_is_ignored(name, ignored) for name in changed.files):
        return State.SKIP, "only files changed that no measurement depends on"
    if asked.is_fork:  # whose build wrote `code`: by its own word nobody is let in
        return State.WAIT, f"it comes from a fork: a maintainer looks at it and says `/ok to test {head}`"
    if code is not None and _is_of(code, changed.merge_base, head) and _runs_the_same(code):
        return State.SKIP, "the compiled code and what launches it are unchanged on every architecture"
    return State.MEASURE, "what is measured changed"


def _is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_of(code: CodeComparison, base: str, head: str) -> bool:
    return (code.base, code.head) == (base, head)


def _runs_the_same(code: CodeComparison) -> bool:
    return bool(code.runs_same_code) and all(code.runs_same_code.values())


# The one check that a branch can require: what became of a pull request's commit, measured or not, on all machines.

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
    """The check run of a commit that is not measured."""
    told, title = _NOT_MEASURED[state]
    return _check(head, told, title, f"{reason[:1].upper()}{reason[1:]}.")


def in_progress(head: str, base: str) -> CheckRun:
    """The check run of a commit that is about to be measured."""
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


def _words(artefact: GateArtefact | None, head: str, quote: Quote) -> str:
    """The result of a machine, for a title or a summary: "regressed, which blocks merging"."""
    if artefact is None:
        return "measured nothing; the job's log says why"
    if artefact.head.hash != head:
        return "measured another commit"
    told = [] if artefact.outcome is Outcome.FAILED else [artefact.outcome.value]
    told += [gate_labels.failing(artefact, quote)] * bool(gate_labels.failing(artefact))
    told += [] if artefact.fault is None else [quote(artefact.fault)]
    return "; ".join(told) + (", which blocks merging" if artefact.is_blocking else "")


def _check(head: str, told: Conclusion | None, title: str, summary: str) -> CheckRun:
    return CheckRun(name=NAME, head=head, conclusion=told, title=plain(title, 255), summary=summary, annotations=())
