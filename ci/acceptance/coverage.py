"""Accepted regressions laid upon a check: which rows they cover, and what is told of those that cover nothing."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from warpwatch.dashboard.analysis.compare_commits import Check, CheckRow
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.quantities import change, share
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.thresholds import Workloads
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store.policy import Acceptance, Expired


def with_acceptances(
    check: Check, accepted: Sequence[Acceptance], workloads: Workloads, expired: Sequence[Expired] = ()
) -> Check:
    """The check with its rows accepted, of several words by the first; its notes say which covered nothing, and which
    would cover what blocks if they had not expired."""
    rows, notes = [], list(check.notes)
    for row in check.rows:
        said = next((each for each in accepted if _covers(each, row, workloads)), None)
        rows.append(replace(row, accepted=said))
    for each in accepted:
        named = [row for row in check.rows if is_named(each.pattern, row.series, workloads)]
        if any(_covers(each, row, workloads) for row in named):
            too_much = [row for row in named if row.verdict is Verdict.REGRESSED and not _is_within(each, row)]
            notes += [f"{_who(each)} is not for {row.series.title}: {_over(each, row)}" for row in too_much]
        elif not named:
            notes.append(f"{_who(each)} names no series here: nothing is accepted by it")
        elif wrong := next((row for row in named if row.verdict is Verdict.INVALID), None):
            notes.append(f"{_who(each)} accepts nothing: {wrong.series.title} fails at head, which nobody can accept")
        elif too_large := next((row for row in named if row.verdict is Verdict.REGRESSED), None):
            notes.append(f"{_who(each)} accepts nothing: {too_large.series.title}: {_over(each, too_large)}")
        else:
            notes.append(f"{_who(each)} accepts nothing: of what it names nothing regressed")
    for lapsed in expired:
        if any(row.decides and _covers(lapsed.said, row, workloads) for row in rows):
            again = f"it has expired: say it of {check.head.hash[:8]} too if it is meant"
            notes.append(f"{_who(lapsed.said)} counted until {lapsed.until[:8]}; {again}")
    return replace(check, rows=tuple(rows), notes=tuple(dict.fromkeys(notes)))


def _covers(said: Acceptance, row: CheckRow, workloads: Workloads) -> bool:
    return _looks_worse(row) and _is_within(said, row) and is_named(said.pattern, row.series, workloads)


def _looks_worse(row: CheckRow) -> bool:
    """Regressed, gone, or slower by what was seen and not told from noise: who accepts the loss accepts that too."""
    if row.verdict is Verdict.MISSING:
        return row.fails
    if row.verdict is not Verdict.INCONCLUSIVE or row.comparison is None:
        return row.verdict is Verdict.REGRESSED
    return row.series.metric.is_worse(row.comparison.change)


def is_named(pattern: str, series: Series, workloads: Workloads) -> bool:
    """Whether the glob matches the series' kernel, benchmark, title or key."""
    workload = workloads.get((series.suite, series.workload or ""))
    names = (kernel_of(series, workload), series.benchmark, series.title, series.key)
    return any(fnmatchcase(name, pattern) for name in names)


def _is_within(said: Acceptance, row: CheckRow) -> bool:
    if said.at_most is None:
        return True
    return row.comparison is not None and abs(row.comparison.change) <= said.at_most


def _over(said: Acceptance, row: CheckRow) -> str:
    moved = change(row.comparison.change if row.comparison else None, row.base)
    return f"{moved} is more than the {share(said.at_most)} accepted"


def _who(said: Acceptance) -> str:
    return f"“{said.pattern}”, accepted by {said.by} ({said.source}),"
