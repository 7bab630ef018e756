"""Texts of comparisons and release reports: plain and Markdown."""

import itertools
from collections.abc import Iterable, Sequence

from ..analysis.release_report import LatencyChange, OtherMetricChange, ReleaseReport
from ..model.comparison import Comparison, ComparisonRow, Outcome
from ..model.quantities import change, quantity, ratio
from ..model.schema import CommitSchema
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
from .labels import count, shortened
from .markdown import code_span, inert

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
    return line if width is None else shortened(line, width)


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


def release_markdown(report: ReleaseReport) -> str:
    """A sentence and a table of kernels for each machine, then the other metrics that changed."""
    lines = [f"## Performance: {name_of(report.base, report.base_name)} → {name_of(report.head, report.head_name)}"]
    for machine in report.machines:
        lines += ["", f"**{inert(machine.machine)}**: {sentence(report, machine)}."]
        if machine.workloads:
            lines += ["", *_table(report, [each for each in report.kernels if each.machine == machine.machine])]
    if report.others:
        lines += ["", "Other metrics:", "", *map(_other, report.others)]
    return "\n".join([*lines, ""])


def name_of(commit: CommitSchema, tag: str | None) -> str:
    """The tag, else the shortened hash."""
    return inert(tag) if tag else f"`{commit.hash[:8]}`"


def sentence(report: ReleaseReport, change_of: LatencyChange) -> str:
    """The counts, mean and standing against the baselines in one sentence."""
    if not change_of.workloads:
        return "not measured at both commits"
    counts = [(change_of.faster, "faster"), (change_of.slower, "slower"), (change_of.inconclusive, "inconclusive")]
    parts = [f"{number} {word}" for number, word in counts if number]
    text = f"{', '.join(parts) if parts else 'no change'} of {count(change_of.workloads, report.workload_word)}"
    if change_of.change is not None:
        text += f"; {report.metric} {change(change_of.change)} (geometric mean)"
    if change_of.speedup_head is not None:
        text += f"; {ratio(change_of.speedup_head)} the best baseline"
        text += f" (was {ratio(change_of.speedup_base)})" if change_of.speedup_base is not None else ""
    return text


def outcome(change_of: LatencyChange) -> list[str]:
    """What happened to a kernel's workloads: "5 of 7 faster", "1 of 7 inconclusive"; "new"; "no change"."""
    if change_of.is_new or change_of.is_removed:
        return ["new" if change_of.is_new else "removed"]
    counts = [(change_of.faster, "faster"), (change_of.slower, "slower"), (change_of.inconclusive, "inconclusive")]
    parts = [f"{number} of {change_of.workloads} {word}" for number, word in counts if number]
    parts += [f"{number} {word}" for number, word in ((change_of.new, "new"), (change_of.removed, "removed")) if number]
    return parts or ["no change"]


def _table(report: ReleaseReport, kernels: Sequence[LatencyChange]) -> Iterable[str]:
    has_baselines = any(each.speedup_head is not None for each in kernels)
    yield f"| {report.kernel_word} | {report.metric} | {report.workload_word}s |" + (
        " against best baseline |" if has_baselines else ""
    )
    yield "|---|--:|---|" + ("--:|" if has_baselines else "")
    for each in kernels:
        cells = [code_span(each.kernel or ""), change(each.change), ", ".join(outcome(each))]
        if has_baselines:
            cells.append(standing(each))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def standing(change_of: LatencyChange) -> str:
    """The speedup over the best baseline, with what it was if it moved: "1.2× → 1.43×"."""
    before, now = ratio(change_of.speedup_base), ratio(change_of.speedup_head)
    if change_of.speedup_base is None or before == now:
        return now
    return f"{before} → {now}"


def _other(metric: OtherMetricChange) -> str:
    direction = "worse" if metric.is_worse else "better"
    amount = f" {change(metric.change)}" if metric.change is not None else ""
    series = count(metric.series, "series", "series")
    return f"- {code_span(metric.kernel)}: {metric.label}{amount} ({direction}, {series}, {inert(metric.machine)})"
