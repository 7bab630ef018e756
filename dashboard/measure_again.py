"""What would settle a change: the few commits that, measured again on its machine, tell most about it."""

import itertools
from dataclasses import dataclass

from warpwatch.dashboard.quantities import number, share
from warpwatch.dashboard.reproduce import asv_between, asv_commits
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.statistics.machine_state import Control
from warpwatch.dashboard.store.records import Commit, Series, SeriesChange

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
    if change.share is not None and change.share.low > _MOSTLY and change.share.control is Control.OTHERS:
        return "Nearly all series of the machine moved: it may be the machine, or something that all of them share."
    if change.share is not None and change.share.high > _MOSTLY:
        return f"The machine moved too, and up to {share(min(change.share.high, 1.0))} of it may be the machine's."
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
    )  # fmt: skip


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
