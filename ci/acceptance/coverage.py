"""Which rows of a comparison an accepted regression covers, and the notes on acceptances that cover nothing."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from warpwatch.dashboard.model.comparison import Acceptance, Comparison, ComparisonRow
from warpwatch.dashboard.model.quantities import share
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store.policy import ExpiredAcceptance
from warpwatch.dashboard.text.comparison_labels import relative_change


def with_acceptances(
    comparison: Comparison, accepted: Sequence[Acceptance], expired: Sequence[ExpiredAcceptance] = ()
) -> Comparison:
    """The comparison with its rows accepted, each by the first acceptance that covers it.

    Its notes list acceptances that cover nothing, and expired ones that would cover a row which decides.
    """
    rows, notes = [], list(comparison.notes)
    for row in comparison.rows:
        rows.append(row.model_copy(update={"accepted": covering(accepted, row)}))
    for each in accepted:
        named = [row for row in comparison.rows if is_named(each.pattern, row.series, row.kernel)]
        if any(_covers(each, row) for row in named):
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
        if any(row.decides and _covers(lapsed.acceptance, row) for row in rows):
            again = f"it has expired: say it of {comparison.head.hash[:8]} too if it is meant"
            notes.append(f"{_who(lapsed.acceptance)} counted until {lapsed.until[:8]}; {again}")
    return comparison.model_copy(update={"rows": tuple(rows), "notes": tuple(dict.fromkeys(notes))})


def covering(accepted: Sequence[Acceptance], row: ComparisonRow) -> Acceptance | None:
    """The first acceptance that covers the row.

    An acceptance covers a row that regressed, is gone, or is inconclusive and looks worse: who accepts the loss accepts
    that too. It must name the row's kernel, benchmark, title or key, and allow as large a change.
    """
    return next((each for each in accepted if _covers(each, row)), None)


def _covers(acceptance: Acceptance, row: ComparisonRow) -> bool:
    if not row.may_be_accepted or (row.verdict is Verdict.INCONCLUSIVE and not row.is_worse):
        return False
    return _is_within(acceptance, row) and is_named(acceptance.pattern, row.series, row.kernel)


def is_named(pattern: str, series: Series | SeriesSchema, kernel: str) -> bool:
    """Whether the glob matches the kernel, or the series' benchmark, title or key."""
    return any(fnmatchcase(name, pattern) for name in (kernel, series.benchmark, series.title, series.key))


def _is_within(acceptance: Acceptance, row: ComparisonRow) -> bool:
    if acceptance.at_most is None:
        return True
    return row.estimate is not None and abs(row.estimate.change) <= acceptance.at_most


def _over(acceptance: Acceptance, row: ComparisonRow) -> str:
    return f"{relative_change(row)} is more than the {share(acceptance.at_most)} accepted"


def _who(acceptance: Acceptance) -> str:
    return f"“{acceptance.pattern}”, accepted by {acceptance.by} ({acceptance.source}),"
