"""Which commits of a pull request are measured, and the check that a branch can require."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

import click

from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.text.comparison_labels import Quote
from warpwatch.dashboard.text.labels import short_hash
from warpwatch.dashboard.text.markdown import code_span

from ..code.code_comparison import CodeComparison, CodeFileError, read_model
from ..forges.forge_request import ForgeError
from ..forges.github import CheckRun, Conclusion
from ..forges.pull_request_address import workflow_run_url
from ..gate.artefact import GateArtefact, plain
from ..policy.policy_model import Inconclusive
from ..reports import gate_labels
from ..reports.comment import conclusion
from .events import BUILT, Event, EventCommit, event_commit
from .repository import Changed, Repository


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
    files = changed.files
    if files is not None and all(any(fnmatchcase(name, pattern) for pattern in ignored) for name in files):
        return GateState.SKIP, "only files without influence on measurements changed"
    if commit.is_fork:  # before `code`, which the fork's own build wrote
        return GateState.WAIT, f"it comes from a fork: a maintainer must review it and reply `/ok to test {head}`"
    is_of_head = code is not None and (code.base, code.head) == (changed.merge_base, head)
    if code is not None and is_of_head and code.runs_same_code and all(code.runs_same_code.values()):
        return GateState.SKIP, "compiled code and host code are unchanged on every architecture"
    return GateState.MEASURE, "measured code changed"


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


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("plan-gate")
@click.option(
    "--ignore",
    "patterns",
    default="",
    metavar="PATTERNS",
    help="Paths that no measurement depends on, such as *.md; separated by spaces or line ends.",
)
@click.option(
    "--code", "code_file", type=_FILE, help="Output of the build's `warpwatch compare --code`, if there is one."
)
@click.option(
    "--output",
    type=_FILE,
    envvar="GITHUB_OUTPUT",
    required=True,
    help="File to which state, reason, pull, base and head are appended; else GITHUB_OUTPUT.",
)
def plan_gate(patterns: str, code_file: Path | None, output: Path) -> None:
    """Decide whether the commit of the workflow's event is measured, and why not.

    Reads the event and GitHub with GITHUB_TOKEN, which needs to read, and to write checks: the check `warpwatch gate`
    of a commit to be measured is set to in progress. The state is measure, skip (measured code is unchanged, or a merge
    queue's commit), wait (a fork's commit needs approval), failed (it does not build), cancelled, timed-out or stopped
    (its build), or empty (no pull request).
    """
    try:
        repository = Repository.of_workflow()
        commit = event_commit(Event.of_workflow(), repository)
        if commit is None:
            _write(output, None)
            return
        changed = repository.changed(commit.pull_request.base, commit.pull_request.head)
        decision = plan(commit, changed, ignored=tuple(patterns.split()), code=_code(code_file))
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    _write(output, decision)
    if decision.state is GateState.MEASURE:
        _announce(repository, decision)


def _announce(repository: Repository, decision: Plan) -> None:
    """Sets the check to in progress; an error does not stop the measurement."""
    try:
        check = replace(in_progress(decision.head, decision.base), details_url=workflow_run_url())
        repository.thread(decision.pull).put_check_run(check)
    except ForgeError as error:
        click.echo(f"the check cannot be set to in progress: {error}", err=True)


def _code(path: Path | None) -> CodeComparison | None:
    """The comparison of compiled code; None if it is missing or invalid."""
    if path is None or not path.exists():
        return None
    try:
        return read_model(CodeComparison, path, made_by="warpwatch compare --code")
    except CodeFileError as error:
        click.echo(str(error), err=True)
        return None


def _write(output: Path, decision: Plan | None) -> None:
    lines = {"state": "", "reason": "not the newest commit of an open pull request", "pull": "", "base": "", "head": ""}
    if decision is not None:
        lines = {
            "state": decision.state.value,
            "reason": decision.reason,
            "pull": str(decision.pull),
            "base": decision.base,
            "head": decision.head,
        }
    with output.open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in lines.items())
    click.echo(f"{lines['state'] or 'nothing to do'}: {lines['reason']}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"**{lines['state'] or 'nothing to do'}**: {lines['reason']}\n")
