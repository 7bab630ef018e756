"""Acceptances: regressions of a commit range that a person accepts in a commit message, a reply or a command.

A line is `rope* the exact sine is worth it` or `"*b1, warpwatch)" <= 5 % known`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from warpwatch.dashboard.importers.git import GitError, messages
from warpwatch.dashboard.model.comparison import Acceptance, Comparison, ComparisonRow
from warpwatch.dashboard.model.quantities import share
from warpwatch.dashboard.model.schema import SeriesSchema, first_fault
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import ExpiredAcceptance, acceptances
from warpwatch.dashboard.text.comparison_labels import relative_change

SYNTAX = "<glob> [<= 5 %] <reason>, such as: rope* <= 5 % the exact sine is worth it"
_LINE = re.compile(
    r'(?:"(?P<quoted>[^"]+)"|(?P<glob>[^\s"]+))\s+'
    r"(?:<=?\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*)?"
    r"(?P<reason>[^<\s].*)"  # a reason cannot start with a malformed bound
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceLine:
    pattern: str
    reason: str
    at_most: float | None  # relative


def parse_acceptance(line: str) -> AcceptanceLine:
    """Parses a glob (in quotes if it has spaces), an optional bound and a reason. Raises ValueError."""
    line = printable(line)
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"expected {SYNTAX}; got {line[:100]!r}")
    percent = match["percent"]
    return AcceptanceLine(
        pattern=match["quoted"] or match["glob"],
        reason=match["reason"],
        at_most=float(percent) / 100 if percent is not None else None,
    )


def printable(text: str) -> str:
    """Untrusted text without control and bidi characters, which terminals obey."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text.strip())


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


# `Accept-Regression: <glob> [<= 5 %] <reason>` in the messages of the commits between base and head.
#
# Any line counts, not only git's trailers at the end: a squash moves last lines into the middle of a message.

_IN_MESSAGE = re.compile(r"^[ \t]*Accept-Regression:(?P<rest>.*)$", re.IGNORECASE | re.MULTILINE)


def accepted_in_messages(repository: Path, base: str, head: str) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
    """Acceptances in the messages of base..head (full hashes), and a sentence for each invalid line."""
    try:
        commits = messages(repository, base, head)
    except GitError as error:
        return (), (f"accepted regressions cannot be read from {repository}: {error}",)
    accepted, faults = [], []
    for message in commits:
        source = f"commit {message.commit[:8]}"
        for match in _IN_MESSAGE.finditer(message.text):
            try:
                line = parse_acceptance(match["rest"])
                accepted.append(
                    Acceptance(
                        pattern=line.pattern,
                        reason=line.reason,
                        at_most=line.at_most,
                        by=printable(message.author),
                        at=message.date,
                        source=source,
                    )
                )
            except ValueError as error:
                faults.append(f"Accept-Regression in {source} is invalid: {first_fault(error)}")
    return tuple(accepted), tuple(faults)


def acceptances_between(
    store: Store, project: str, repository: Path | None, base: str, head: str
) -> tuple[tuple[Acceptance, ...], tuple[str, ...]]:
    """All acceptances for base..head (full hashes) without duplicates, and sentences on unreadable ones."""
    accepted: list[Acceptance] = []
    faults: list[str] = []
    if repository is not None:
        in_messages, invalid_lines = accepted_in_messages(repository, base, head)
        accepted += in_messages
        faults += invalid_lines
    accepted += acceptances(store, project, base, head)
    unique = {(each.source, each.pattern): each for each in reversed(accepted)}
    return tuple(reversed(unique.values())), tuple(faults)
