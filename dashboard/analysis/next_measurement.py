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
    if not series.is_asvs:
        return None
    return f"asv run --record-samples --bench {_pattern(series)} {shlex.quote(commit.hash + '^!')}"


def asv_commits(series: Series, commits: Sequence[Commit]) -> str | None:
    """`asv run` for the same at each of these commits."""
    if len(commits) == 1 or not series.is_asvs:
        return asv_command(series, commits[0])
    hashes = " ".join(shlex.quote(commit.hash) for commit in commits)
    return f"printf '%s\\n' {hashes} | asv run --record-samples --bench {_pattern(series)} HASHFILE:-"


def asv_between(series: Series, base: Commit, head: Commit, steps: int) -> str | None:
    """`asv run` for the same at up to `steps` commits after base and up to head, evenly apart."""
    if not series.is_asvs:
        return None
    commits = shlex.quote(f"{base.hash}..{head.hash}")
    return f"asv run --record-samples --steps {steps} --bench {_pattern(series)} {commits}"


def gate_command(series: Series, base: Commit, head: Commit) -> str | None:
    """`warpwatch gate` for the same at two commits: measured in turns, until it is sure."""
    if not series.is_asvs:
        return None
    return f"warpwatch gate {shlex.quote(base.hash)} {shlex.quote(head.hash)} --bench {_pattern(series)}"


def _pattern(series: Series) -> str:
    """What `--bench` wants, quoted for a shell.

    asv matches it against "name(param, param)" with strings in quotes; the store keeps parameters without them, so a
    dot stands where a quote may be.
    """
    pattern = f"^{re.escape(series.benchmark)}"
    if series.parameters:
        pattern += r"\(" + ", ".join(f".?{re.escape(value)}.?" for _, value in series.parameters) + r"\)"
    # re.escape also escapes what is no sign in a regular expression; without that the command reads better.
    pattern = re.sub(r"\\([ \-#&~=,:<>/'\"])", r"\1", pattern)
    return shlex.quote(pattern + "$")


_TELLING = (0.25, 0.5, 0.75)  # chances of the new level that halve what is open, and halve it again
_MOST_STEPS = 5  # of commits that nobody has measured yet
_KNOWN = 0.05  # of a commit: surely of one level or the other
_MOSTLY = 0.5  # the machine's share, up to which a change is a commit's


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAgain:
    """What to measure, why, and how."""

    reason: str
    commits: tuple[Commit, ...]  # none where it is commits that have not been measured yet
    machine: str
    command: str | None  # None where another tool than asv measured


def measure_again(series: Series, change: SeriesChange) -> MeasureAgain | None:
    """What would settle a step; None for one that is settled, and for what is no commit's.

    First whether it is there at all, and a commit's: then both ends of it are measured beside each other. Then where:
    commits of its range that are as likely of the old level as of the new tell most, as in any bisection. Last,
    commits in between that nobody has measured.
    """
    if change.kind not in {ChangeKind.STEP, ChangeKind.MAY_BE_CHANCE}:
        return None
    ends = (change.previous_commit, change.commit)
    if doubt := _doubt(change):
        return _at(series, f"{doubt} Both ends of the change, measured beside each other, tell.", ends)
    if undecided := _undecided(change):
        this = "this narrows" if len(undecided) == 1 else "these narrow"
        reason = (
            f"With 95 % it came with one of {len(change.posterior)} measured commits. Measured again, {this} it down."
        )
        return _at(series, reason, undecided)
    return _never_measured(series, *ends)


def _doubt(change: SeriesChange) -> str | None:
    """Why it may be no commit's."""
    if change.share is not None and change.share.ci_low > _MOSTLY and change.share.control is Control.OTHERS:
        return "Nearly all series of the machine moved: it may be the machine, or something that all of them share."
    if change.share is not None and change.share.ci_high > _MOSTLY:
        return f"The machine moved too, and up to {share(min(change.share.ci_high, 1.0))} of it may be the machine's."
    if change.kind is ChangeKind.MAY_BE_CHANCE and change.q_value is not None:
        return f"Among all series of the run it may be chance (q = {number(change.q_value)})."
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
    """Up to three commits of the range that may be of either level, nearest to one half and the quarters, in order."""
    whole = sum(held for _, held in change.posterior)
    sums = itertools.accumulate(held / whole for _, held in change.posterior)
    chance = dict(zip((commit for commit, _ in change.posterior), sums, strict=True))  # of the new level
    open_ones = [commit for commit in chance if _KNOWN < chance[commit] < 1 - _KNOWN]
    if not open_ones:
        return ()
    chosen = {min(open_ones, key=lambda commit: abs(chance[commit] - wanted)) for wanted in _TELLING}
    return tuple(commit for commit in open_ones if commit in chosen)
