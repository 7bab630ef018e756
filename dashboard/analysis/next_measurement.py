"""Which commits to measure again to settle a change, and the commands that do it."""

import itertools
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.changepoint import SeriesChange
from ..model.quantities import number, share
from ..model.series import Commit, Series
from ..model.verdict import ChangeKind, Control

# The commands that measure one series again, on any machine with the repository.


def asv_command(series: Series, commit: Commit) -> str | None:
    """`asv run` for exactly this benchmark and these parameters at this commit; None if another tool measured it."""
    if not series.is_from_asv:
        return None
    return f"asv run --record-samples --bench {_pattern(series)} {shlex.quote(commit.hash + '^!')}"


def asv_commits(series: Series, commits: Sequence[Commit]) -> str | None:
    """`asv run` for the same at each of these commits."""
    if len(commits) == 1 or not series.is_from_asv:
        return asv_command(series, commits[0])
    hashes = " ".join(shlex.quote(commit.hash) for commit in commits)
    return f"printf '%s\\n' {hashes} | asv run --record-samples --bench {_pattern(series)} HASHFILE:-"


def asv_between(series: Series, base: Commit, head: Commit, steps: int) -> str | None:
    """`asv run` for the same at up to `steps` commits after base and up to head, evenly spaced."""
    if not series.is_from_asv:
        return None
    commits = shlex.quote(f"{base.hash}..{head.hash}")
    return f"asv run --record-samples --steps {steps} --bench {_pattern(series)} {commits}"


def gate_command(series: Series, base: Commit, head: Commit) -> str | None:
    """`warpwatch gate` for the same at two commits: measured in turns until the series is decided."""
    if not series.is_from_asv:
        return None
    return f"warpwatch gate {shlex.quote(base.hash)} {shlex.quote(head.hash)} --bench {_pattern(series)}"


def _pattern(series: Series) -> str:
    """Regular expression for `--bench`, quoted for a shell.

    asv matches it against "name(param, param)" with strings in quotes; the store keeps parameters without them, so a
    dot matches a quote.
    """
    pattern = f"^{re.escape(series.benchmark)}"
    if series.parameters:
        pattern += r"\(" + ", ".join(f".?{re.escape(value)}.?" for _, value in series.parameters) + r"\)"
    # re.escape also escapes characters without a meaning in a regular expression; undo that for readability.
    pattern = re.sub(r"\\([ \-#&~=,:<>/'\"])", r"\1", pattern)
    return shlex.quote(pattern + "$")


_QUARTILES = (0.25, 0.5, 0.75)  # of the posterior
_MOST_STEPS = 5  # commits without results to measure
_KNOWN = 0.05  # probability of the other level, below which a commit's level is known
_MOSTLY = 0.5  # the machine's share, above which the change may not be the commit's


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAgain:
    """A proposed measurement."""

    reason: str
    commits: tuple[Commit, ...]  # empty if they have no results yet
    machine: str
    command: str | None  # None where another tool than asv measured


def measure_again(series: Series, change: SeriesChange) -> MeasureAgain | None:
    """The next measurement of a step; None if it is settled, or is not a commit's.

    If the step is in doubt: both ends in one session. Else, if its range has several measured commits: those nearest to
    the quartiles of the posterior, as in a bisection. Else: commits in between without results.
    """
    if change.kind not in {ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT}:
        return None
    ends = (change.previous_commit, change.commit)
    if doubt := _doubt(change):
        return _at(series, f"{doubt} Measure both ends of the change in one session.", ends)
    if undecided := _undecided(change):
        which = "this one" if len(undecided) == 1 else "these"
        reason = f"One of {len(change.posterior)} measured commits caused it (95 %). Measure {which} again."
        return _at(series, reason, undecided)
    return _never_measured(series, *ends)


def _doubt(change: SeriesChange) -> str | None:
    """Why the change may not be the commit's."""
    if change.share is not None and change.share.ci_low > _MOSTLY and change.share.control is Control.OTHERS:
        return "Nearly all series of the machine changed: the machine may be the cause, or something that all share."
    if change.share is not None and change.share.ci_high > _MOSTLY:
        return (
            f"The machine changed too, which may explain up to {share(min(change.share.ci_high, 1.0))} of the change."
        )
    if change.kind is ChangeKind.NOT_SIGNIFICANT and change.q_value is not None:
        return f"It is not significant among all series of the run (q = {number(change.q_value)})."
    if change.is_across_gpus and change.gpus == 1:
        return "Different GPUs measured the two commits, and no further GPU has measured the new level."
    return None


def _never_measured(series: Series, base: Commit, head: Commit) -> MeasureAgain | None:
    elsewhere = max(head.position - base.position - 1, 0)  # with results of other machines or benchmarks
    between = elsewhere + (head.unmeasured_before or 0)
    if not between:
        return None
    count = f"{'At least ' if elsewhere else ''}{between} commit{'s' if between > 1 else ''}"
    reason = f"{count} between {base.hash[:8]} and {head.hash[:8]} {'were' if between > 1 else 'was'} not measured."
    steps = min(between + 1, _MOST_STEPS)  # the last of them is the head itself
    return MeasureAgain(
        reason=reason, commits=(), machine=series.machine, command=asv_between(series, base, head, steps)
    )


def _at(series: Series, reason: str, commits: tuple[Commit, ...]) -> MeasureAgain:
    return MeasureAgain(reason=reason, commits=commits, machine=series.machine, command=asv_commits(series, commits))


def _undecided(change: SeriesChange) -> tuple[Commit, ...]:
    """Up to three commits that may have either level, nearest to the quartiles of the posterior, in order."""
    total = sum(probability for _, probability in change.posterior)
    sums = itertools.accumulate(probability / total for _, probability in change.posterior)
    is_new = dict(zip((commit for commit, _ in change.posterior), sums, strict=True))  # probability of the new level
    unknown = [commit for commit in is_new if _KNOWN < is_new[commit] < 1 - _KNOWN]
    if not unknown:
        return ()
    chosen = {min(unknown, key=lambda commit: abs(is_new[commit] - quartile)) for quartile in _QUARTILES}
    return tuple(commit for commit in unknown if commit in chosen)
