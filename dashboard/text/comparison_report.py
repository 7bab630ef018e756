"""A comparison as text: a table for a terminal, Markdown for a pull request, JSON for programs."""

import itertools

from ..model.comparison import Comparison, ComparisonRow, Outcome
from ..model.quantities import quantity
from ..model.verdict import Verdict
from .comparison_labels import (
    OUTCOMES,
    change_with_interval,
    drift_sentence,
    evidence,
    interval,
    levels,
    relative_change,
    remark,
    threshold_note,
    why_not_deciding,
)
from .labels import count
from .markdown import code_span

# Counted, without rows.
_COUNTED_ONLY = {Verdict.UNCHANGED, Verdict.MISSING}
_INDENT = max(map(len, Verdict)) + 2
_ROWS_EACH = 20
LAYOUTS = ("table", "json", "markdown")


def as_text(comparison: Comparison, layout: str, *, width: int | None) -> str:
    """The comparison in one of LAYOUTS; lines of a table are cut at `width` columns if given."""
    if layout == "table":
        return as_table(comparison, width)
    return as_json(comparison) if layout == "json" else as_markdown(comparison)


def as_table(comparison: Comparison, width: int | None = None) -> str:
    """Plain text, two lines per series, cut at `width` columns; a third line if the series does not decide.

    Lists all regressions, and the largest of the other changes.
    """
    subject = f" “{comparison.head.subject}”" if comparison.head.subject else ""
    lines = [f"{_headline(comparison)}{subject}", ""]
    for verdict, group in itertools.groupby(_listed(comparison), key=lambda row: row.verdict):
        rows = list(group)
        listed = rows if verdict is Verdict.REGRESSED else rows[:_ROWS_EACH]
        for row in listed:
            lines.append(_cut(f"{verdict.value:<{_INDENT}}{_name(row, comparison)}", width))
            lines.append(_cut(" " * _INDENT + _sentence(row), width))
            if aside := why_not_deciding(row):
                lines.append(" " * _INDENT + aside)  # by a person: not cut
        if len(listed) < len(rows):
            lines.append(f"{verdict.value:<{_INDENT}}… and {len(rows) - len(listed)} more")
        lines.append("")
    fault = [comparison.fault] if comparison.fault is not None else []
    drifts = map(drift_sentence, comparison.drifts)
    return "\n".join([*lines, _counts(comparison), *drifts, *fault, *comparison.notes])


def as_markdown(comparison: Comparison) -> str:
    """For a pull request's comment: the outcome, then the changes."""
    subject = f" {code_span(comparison.head.subject)}" if comparison.head.subject else ""
    lines = [f"### warpwatch: {_headline(comparison)}{subject}", ""]
    rows = _listed(comparison)
    if rows:
        lines += ["| verdict | series | base | head | change | 95 % interval | |", "|---|---|--:|--:|--:|--:|---|"]
        for row in rows:
            word = f"**{row.verdict.value}**" if row.fails or row.verdict is Verdict.REGRESSED else row.verdict.value
            _, name, *numbers, why = row_cells(row, _name(row, comparison))
            cells = (word, code_span(name), *numbers, code_span(why) if why else "")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    fault = [f"**{code_span(comparison.fault)}**"] if comparison.fault is not None else []
    notes = (f"- {code_span(note)}" for note in comparison.notes)
    return "\n".join([*lines, _counts(comparison), *map(drift_sentence, comparison.drifts), *fault, *notes])


def as_json(comparison: Comparison) -> str:
    """Every series, also unchanged ones, in the schema of model/comparison.py."""
    return comparison.model_dump_json(indent=2)


def row_cells(row: ComparisonRow, name: str) -> tuple[str, ...]:
    """A row of a table: verdict, name, base, head, change, 95 % interval, and the remark."""
    unit = row.series.unit
    numbers = (quantity(row.base, unit), quantity(row.head, unit), relative_change(row), interval(row))
    return row.verdict.value, name, *numbers, remark(row)


def _headline(comparison: Comparison) -> str:
    base, head = comparison.base, comparison.head
    return f"{_outcome(comparison)}: {comparison.project} {base.hash[:8]} → {head.hash[:8]}"


def _outcome(comparison: Comparison) -> str:
    """The outcome; if blocking, all blocking reasons."""
    if not comparison.is_blocking:
        is_regressed = comparison.outcome is Outcome.REGRESSED
        if is_regressed and comparison.is_inconclusive:
            return OUTCOMES[Outcome.INCONCLUSIVE]
        return "no regression that blocks" if is_regressed else OUTCOMES[comparison.outcome]
    failing = len({(row.series.title, row.series.machine) for row in comparison.failing})
    regressed = any(row.decides and row.verdict is Verdict.REGRESSED for row in comparison.rows)
    parts = [OUTCOMES[Outcome.REGRESSED]] * regressed
    parts += [f"{count(failing, 'benchmark')} {'fail' if failing > 1 else 'fails'} at head"] * (failing > 0)
    return ", ".join(parts + ["the policy cannot be used"] * (comparison.fault is not None))


def _listed(comparison: Comparison) -> list[ComparisonRow]:
    return [row for row in comparison.rows if row.fails or row.verdict not in _COUNTED_ONLY]


def _sentence(row: ComparisonRow) -> str:
    """Levels, change and evidence: "61.5 µs → 70.1 µs, +14.0 % (+13.2 % … +14.8 %), control +0.1 %"."""
    why = evidence(row)
    if row.estimate is None:
        return f"{levels(row)}: {why}"
    return f"{levels(row)}, {change_with_interval(row)}" + (f", {why}" if why else "")


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def _name(row: ComparisonRow, comparison: Comparison) -> str:
    several = len({other.series.machine for other in comparison.rows}) > 1
    return f"{row.series.title} on {row.series.machine}" if several else row.series.title


def _counts(comparison: Comparison) -> str:
    parts = [_count(comparison, verdict) for verdict in Verdict if comparison.count(verdict)]
    counts = ", ".join(parts) if parts else "no series has results at either commit"
    return f"{counts}; {threshold_note(comparison.threshold, comparison.rows)}."


def _count(comparison: Comparison, verdict: Verdict) -> str:
    """Number of rows with the verdict, and of those that are accepted or do not block."""
    rows = [row for row in comparison.rows if row.verdict is verdict]
    accepted = sum(row.is_accepted for row in rows)
    aside = sum(not row.decides for row in rows) - accepted
    parts = [f"{accepted} accepted"] * bool(accepted)
    if aside and verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.INVALID}:
        parts.append(f"{aside} not blocking")
    return f"{len(rows)} {verdict.value}" + (f" ({', '.join(parts)})" if parts else "")
