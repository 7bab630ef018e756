"""Whether a commit of a pull request is measured on GPUs: what cannot have moved a number needs none."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from warpwatch.ci.code.comparison import CodeComparison
from warpwatch.ci.pull_requests.events import BUILT, Asked
from warpwatch.ci.pull_requests.repository import Changed
from warpwatch.dashboard.formatting import short_hash


class State(StrEnum):
    """What becomes of it."""

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
    """What is to be done, and why."""

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
