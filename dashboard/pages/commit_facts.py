"""What one commit did, as its page tells it: a verdict for each machine, what has no number, what the compiler made."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.comparing import Compared, ComparedRow
from warpwatch.dashboard.compiled_difference import CompiledDifference, compiled_difference
from warpwatch.dashboard.drift import Drift
from warpwatch.dashboard.pages.compared import compared_commits
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.quantities import change
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.queries.comparing import MeasuredOn
from warpwatch.dashboard.store.records import Commit, CommitPage, CommitPoint, Series, Status
from warpwatch.dashboard.verdict import Verdict

_MOVED = (Verdict.REGRESSED, Verdict.IMPROVED)
_TOLD = 12  # rows of each comparison
_DOUBTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitVerdict:
    """The commit against the one before it with results on these machines."""

    machines: tuple[MeasuredOn, ...]
    base: Commit | None  # None: the first
    compared: Compared | None
    counts: tuple[tuple[Verdict, int], ...]
    moved: tuple[ComparedRow, ...]  # the first of them, regressions before improvements
    left: int  # moved and not among these
    across: tuple[ComparedRow, ...]  # measured by other cards, and moved by more than these differ: the first of them
    across_left: int
    doubts: tuple[tuple[str, int], ...]  # why rows could not be told, the commonest reasons

    @property
    def machine(self) -> str | None:
        """The one machine that the comparison was narrowed to; None where it was of all."""
        return self.machines[0].machine if len(self.machines) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What has no number for one reason on one machine."""

    machine: str
    status: Status
    reason: str | None
    series: tuple[Series, ...]


def commit_verdicts(project: str, commit: Commit, measured: Sequence[MeasuredOn]) -> tuple[CommitVerdict, ...]:
    """Rows of what `warpwatch check` says: one where all measured the same commit before, else one a machine."""
    bases = {each.before.hash for each in measured if each.before is not None}
    if len(bases) == 1 and all(each.before for each in measured):
        return (_verdict(project, commit, measured, measured[0].before, None),)
    found = []
    for name in dict.fromkeys(each.machine for each in measured):
        mine = [each for each in measured if each.machine == name]
        befores = [each.before for each in mine if each.before is not None]
        base = max(befores, key=lambda before: before.position, default=None)
        found.append(_verdict(project, commit, mine, base, name))
    return tuple(found)


def machine_states(
    project: str, verdicts: Iterable[CommitVerdict], *, has_controls: bool
) -> dict[str, str]:  # fmt: skip
    """What each machine did between the two commits, as its controls tell."""
    found = {}
    for told in verdicts:
        drifts = {drift.machine: drift for drift in told.compared.drifts} if told.compared is not None else {}
        cards = _cards(queries.measured_on(store(), project, told.base.hash)) if told.base is not None else {}
        now = _cards(told.machines)
        for name in now:
            before = cards.get(name, set())
            found[name] = _state(drifts.get(name), told.base, has_controls, bool(before) and not before & now[name])
    return found


def _state(drift: Drift | None, base: Commit | None, has_controls: bool, is_other_card: bool) -> str:
    if base is None:
        return "–"
    if is_other_card:
        return "another card than before: times are not compared"
    if drift is not None:
        return f"moved by {change(drift.change)}, taken off" if drift.change else "moved, not all of it alike"
    return "its controls stood still" if has_controls else "no controls to tell it by"


def _cards(measured: Iterable[MeasuredOn]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in measured:
        found.setdefault(each.machine, set()).update(each.cards)
    return found


def failures(points: Iterable[CommitPoint]) -> tuple[Failure, ...]:
    """Measurements that failed the gate or went wrong otherwise, one series of each; the commonest reason first."""
    groups: dict[tuple[str, Status, str | None], dict[tuple[object, ...], Series]] = {}
    for point in points:
        if point.status in {Status.INVALID, Status.FAILED, Status.WRONG}:
            series = point.series
            its = groups.setdefault((series.machine, point.status, point.reason), {})
            measurement = (series.suite, series.parameters, series.environment)
            if measurement not in its or series.metric.is_latency:  # which stands for all metrics of it
                its[measurement] = series
    found = [
        Failure(machine=machine, status=status, reason=reason, series=tuple(its.values()))
        for (machine, status, reason), its in groups.items()
    ]
    return tuple(sorted(found, key=lambda failure: -len(failure.series)))


def compiled_changes(
    project: str, page: CommitPage, measured: Sequence[MeasuredOn]
) -> tuple[Commit, CompiledDifference] | None:
    """Against the newest commit before that tells of compiled code; None where there is none, or nothing to tell."""
    if not page.compiled:
        return None
    befores = {each.before for each in measured if each.before is not None}
    for base in sorted(befores, key=lambda before: -before.position):
        difference = compiled_difference(queries.compiled_at(store(), project, base.hash), page.compiled)
        if difference.has_both:
            return base, difference
    return None


def _verdict(
    project: str, commit: Commit, machines: Sequence[MeasuredOn], base: Commit | None, machine: str | None
) -> CommitVerdict:
    compared = compared_commits(project, base, commit) if base is not None else None
    rows = [row for row in compared.rows if machine in {None, row.series.machine}] if compared is not None else []
    counted = Counter([row.judged.verdict for row in rows])
    moved = [row for verdict in _MOVED if counted[verdict] for row in rows if row.judged.verdict is verdict]
    across = [row for row in rows if row.judged.across is not None and row.judged.across.is_told]
    doubts = Counter(
        row.judged.reason or "too few runs for how much they scatter"
        for row in rows
        if row.judged.verdict is Verdict.INCONCLUSIVE
    )
    return CommitVerdict(
        machines=tuple(machines),
        base=base,
        compared=compared,
        counts=tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict]),
        moved=tuple(moved[:_TOLD]),
        left=max(len(moved) - _TOLD, 0),
        across=tuple(across[:_TOLD]),
        across_left=max(len(across) - _TOLD, 0),
        doubts=tuple(doubts.most_common(_DOUBTS)),
    )
