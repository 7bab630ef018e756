"""Applies acceptances to the rows of a comparison, and notes acceptances that cover nothing."""

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
    """The comparison with each row accepted by the first acceptance that covers it.

    Its notes list acceptances that cover nothing, and expired ones that would cover a deciding row.
    """
    rows = [row.model_copy(update={"accepted": covering(accepted, row)}) for row in comparison.rows]
    notes = list(comparison.notes)
    for acceptance in accepted:
        matched = [row for row in comparison.rows if is_matched(acceptance.pattern, row.series, row.kernel)]
        regressed = [row for row in matched if row.verdict is Verdict.REGRESSED]
        label = _label(acceptance)
        if any(_covers(acceptance, row) for row in matched):
            too_large = [row for row in regressed if not _is_within(acceptance, row)]
            notes += [f"{label} does not cover {row.series.title}: {_excess(acceptance, row)}" for row in too_large]
        elif not matched:
            notes.append(f"{label} matches no series")
        elif failed := next((row for row in matched if row.verdict is Verdict.INVALID), None):
            notes.append(f"{label} covers nothing: {failed.series.title} fails at head, which cannot be accepted")
        elif regressed:
            row = regressed[0]
            notes.append(f"{label} covers nothing: {row.series.title}: {_excess(acceptance, row)}")
        else:
            notes.append(f"{label} covers nothing: none of its series regressed")
    for old in expired:
        if any(row.decides and _covers(old.acceptance, row) for row in rows):
            notes.append(
                f"{_label(old.acceptance)} has expired: it counted until {old.until[:8]}; "
                f"accept {comparison.head.hash[:8]} too if it is still meant"
            )
    return comparison.model_copy(update={"rows": tuple(rows), "notes": tuple(dict.fromkeys(notes))})


def covering(accepted: Sequence[Acceptance], row: ComparisonRow) -> Acceptance | None:
    """The first acceptance that covers the row.

    An acceptance covers a row that regressed, is missing, or is inconclusive and worse. It must match the row's kernel,
    benchmark, title or key, and allow the change.
    """
    return next((acceptance for acceptance in accepted if _covers(acceptance, row)), None)


def _covers(acceptance: Acceptance, row: ComparisonRow) -> bool:
    if not row.may_be_accepted or (row.verdict is Verdict.INCONCLUSIVE and not row.is_worse):
        return False
    return _is_within(acceptance, row) and is_matched(acceptance.pattern, row.series, row.kernel)


def is_matched(pattern: str, series: Series | SeriesSchema, kernel: str) -> bool:
    """Whether the glob matches the kernel, or the series' benchmark, title or key."""
    return any(fnmatchcase(name, pattern) for name in (kernel, series.benchmark, series.title, series.key))


def _is_within(acceptance: Acceptance, row: ComparisonRow) -> bool:
    if acceptance.at_most is None:
        return True
    return row.estimate is not None and abs(row.estimate.change) <= acceptance.at_most


def _excess(acceptance: Acceptance, row: ComparisonRow) -> str:
    return f"{relative_change(row)} is more than the {share(acceptance.at_most)} accepted"


def _label(acceptance: Acceptance) -> str:
    return f"“{acceptance.pattern}”, accepted by {acceptance.by} ({acceptance.source}),"
