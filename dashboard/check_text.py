"""A check as text: a table for a terminal, Markdown for a pull request, JSON for programs."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from warpwatch.dashboard.check import Check, CheckRow, Outcome
from warpwatch.dashboard.check_words import evidence, remark, runs_needed, why_not_deciding
from warpwatch.dashboard.code_span import code_span
from warpwatch.dashboard.drift import Drift
from warpwatch.dashboard.formatting import count
from warpwatch.dashboard.quantities import change, quantity
from warpwatch.dashboard.store.acceptances import Acceptance
from warpwatch.dashboard.store.records import Commit
from warpwatch.dashboard.verdict import Verdict

# What is not worth a row: nothing moved, or there is nothing to compare. They are counted.
_COUNTED_ONLY = {Verdict.UNCHANGED, Verdict.MISSING}
_HEADLINES = {
    Outcome.UNCHANGED_OR_BETTER: "no regression",
    Outcome.REGRESSED: "regressed",
    Outcome.COULD_NOT_TELL: "could not tell",
}
_INDENT = max(map(len, Verdict)) + 2
_ROWS_EACH = 20
LAYOUTS = ("table", "json", "markdown")


def as_text(check: Check, layout: str, *, width: int | None) -> str:
    """The check in one of LAYOUTS; of a table the lines are cut at `width` columns, if one is given."""
    if layout == "table":
        return as_table(check, width)
    return as_json(check) if layout == "json" else as_markdown(check)


def as_table(check: Check, width: int | None = None) -> str:
    """Plain text, two lines a series, cut at `width` columns, and a third where it does not decide.

    Regressions are all told, of the rest the largest.
    """
    subject = f" “{check.head.subject}”" if check.head.subject else ""
    lines = [f"{_headline(check)}{subject}", ""]
    for verdict, group in itertools.groupby(_shown(check), key=lambda row: row.verdict):
        rows = list(group)
        told = rows if verdict is Verdict.REGRESSED else rows[:_ROWS_EACH]
        for row in told:
            lines.append(_cut(f"{verdict.value:<{_INDENT}}{_name(row, check)}", width))
            lines.append(_cut(" " * _INDENT + _sentence(row), width))
            if aside := why_not_deciding(row):
                lines.append(" " * _INDENT + aside)  # a person's words, whole
        if len(told) < len(rows):
            lines.append(f"{verdict.value:<{_INDENT}}… and {len(rows) - len(told)} more")
        lines.append("")
    fault = [check.fault] if check.fault is not None else []
    return "\n".join([*lines, _counts(check), *_drift_lines(check), *fault, *check.notes])


def as_markdown(check: Check) -> str:
    """For a pull request's comment: verdict first, then what moved."""
    subject = f" {code_span(check.head.subject)}" if check.head.subject else ""
    lines = [f"### warpwatch: {_headline(check)}{subject}", ""]
    shown = _shown(check)
    if shown:
        lines += ["| verdict | series | base | head | change | 95 % interval | |", "|---|---|--:|--:|--:|--:|---|"]
        for row in shown:
            word = f"**{row.verdict.value}**" if row.fails or row.verdict is Verdict.REGRESSED else row.verdict.value
            said = remark(row)
            cells = (word, code_span(_name(row, check)), *_numbers(row), code_span(said) if said else "")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    fault = [f"**{code_span(check.fault)}**"] if check.fault is not None else []
    lines += [_counts(check), *_drift_lines(check), *fault, *(f"- {code_span(note)}" for note in check.notes)]
    return "\n".join(lines)


def as_json(check: Check) -> str:
    """Every series, also those unchanged. Relative changes are fractions."""
    data = {
        "schema": 1,
        "outcome": check.outcome.name.lower(),
        "project": check.project,
        "base": _commit(check.base),
        "head": _commit(check.head),
        "threshold": check.threshold,
        "counts": {verdict.value: check.count(verdict) for verdict in Verdict},
        "drifts": [
            {
                "machine": d.machine,
                "change": d.change,
                "controls": d.controls,
                "canaries": {canary.workload: canary.change for canary in d.canaries},
            }
            for d in check.drifts
        ],
        "notes": list(check.notes),
        "fault": check.fault,
        "series": [row_json(row) for row in check.rows],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _headline(check: Check) -> str:
    base, head = check.base, check.head
    words = _HEADLINES[check.outcome]
    if check.outcome is Outcome.UNCHANGED_OR_BETTER and check.count(Verdict.REGRESSED):
        words = "no regression that blocks"
    if check.outcome is Outcome.REGRESSED:
        words = ", ".join(_why_it_fails(check))
    return f"{words}: {check.project} {base.hash[:8]} → {head.hash[:8]}"


def _why_it_fails(check: Check) -> list[str]:
    failing = len({(row.series.title, row.series.machine) for row in check.failing})
    told = [_HEADLINES[Outcome.REGRESSED]] * any(row.decides and row.verdict is Verdict.REGRESSED for row in check.rows)
    told += [f"{count(failing, 'benchmark')} {'fail' if failing > 1 else 'fails'} at head"] * (failing > 0)
    return told + ["the policy cannot be used"] * (check.fault is not None)


def _shown(check: Check) -> list[CheckRow]:
    return [row for row in check.rows if row.fails or row.verdict not in _COUNTED_ONLY]


def _sentence(row: CheckRow) -> str:
    """What moved, and how surely: "61.5 µs → 70.1 µs, +14.0 % (+13.2 % … +14.8 %), control +0.1 %"."""
    base, head, moved, interval = _numbers(row)
    said = evidence(row)
    if row.comparison is None:
        return f"{base} → {head}: {said}"
    return f"{base} → {head}, {moved}" + (f" ({interval})" if interval else "") + (f", {said}" if said else "")


def row_cells(row: CheckRow, name: str) -> tuple[str, ...]:
    """A row of a table: verdict, name, base, head, change, interval, and what is to be said of it."""
    return row.verdict.value, name, *_numbers(row), remark(row)


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def _name(row: CheckRow, check: Check) -> str:
    several = len({other.series.machine for other in check.rows}) > 1
    return f"{row.series.title} on {row.series.machine}" if several else row.series.title


def _numbers(row: CheckRow) -> tuple[str, str, str, str]:
    unit = row.series.metric.unit
    moved = row.comparison
    interval = f"{change(moved.low)} … {change(moved.high)}" if moved and moved.low < moved.high else ""
    by = change(moved.change if moved else None, row.base)
    return quantity(row.base, unit), quantity(row.head, unit), by, interval


def _counts(check: Check) -> str:
    words = [_count(check, verdict) for verdict in Verdict if check.count(verdict)]
    told = ", ".join(words) if words else "no series has results at either commit"
    own = any(row.limits.floor or row.limits.threshold != check.threshold for row in check.rows)
    return f"{told}; changes from {check.threshold * 100:g} % on matter{', where the policy says no other' * own}."


def _count(check: Check, verdict: Verdict) -> str:
    """How many, and how many of these do not decide where they else would."""
    rows = [row for row in check.rows if row.verdict is verdict]
    accepted = sum(row.accepted is not None for row in rows)
    aside = sum(not row.decides for row in rows) - accepted
    parts = [f"{accepted} accepted"] * bool(accepted)
    if aside and verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.INVALID}:
        parts.append(f"{aside} not blocking")
    return f"{len(rows)} {verdict.value}" + (f" ({', '.join(parts)})" if parts else "")


def _drift_lines(check: Check) -> Sequence[str]:
    return [drift_line(drift) for drift in check.drifts]


def drift_line(drift: Drift) -> str:
    """How a machine itself moved, and whether that is taken off."""
    canaries = ", ".join(f"{canary.workload} {change(canary.change)}" for canary in drift.canaries)
    if drift.change:
        told = f"{drift.controls} controls" + (f"; canaries: {canaries}" if canaries else "")
        return f"The machine {drift.machine} moved by {change(drift.change)} itself ({told}); taken off."
    return (
        f"The machine {drift.machine} moved, and not all of it alike (canaries: {canaries}). Nothing is taken off; "
        "a change of that size is not told from the machine's."
    )


def _commit(commit: Commit) -> dict[str, Any]:
    return {"hash": commit.hash, "date": commit.date.isoformat(), "subject": commit.subject, "author": commit.author}


def row_json(row: CheckRow) -> dict[str, Any]:
    """A judged series for programs. Relative changes are fractions."""
    moved = row.comparison
    return {
        "verdict": row.verdict.value,
        "reason": row.reason,
        "fails": row.fails,
        "series": row.series.key,
        "benchmark": row.series.benchmark,
        "parameters": dict(row.series.parameters),
        "machine": row.series.machine,
        "environment": row.series.environment,
        "metric": row.series.metric.name,
        "unit": row.series.metric.unit,
        "better": row.series.metric.better.value,
        "base": row.base,
        "head": row.head,
        "change": moved.change if moved else None,
        "interval_95": [moved.low, moved.high] if moved else None,
        "p_value": moved.p_value if moved else None,
        "noise": moved.noise if moved else None,
        "noise_source": moved.noise_source.value if moved else None,
        "runs": {"base": moved.base_runs, "head": moved.head_runs} if moved else None,
        "runs_needed": runs_needed(row),
        "control_change": row.control_change,
        "threshold": row.limits.threshold,
        "floor": row.limits.floor,
        "blocks": row.limits.blocks,
        "owners": list(row.limits.owners),
        "accepted": _accepted_json(row.accepted) if row.accepted else None,
    }


def _accepted_json(said: Acceptance) -> dict[str, Any]:
    return {"by": said.by, "reason": said.reason, "at": said.at.isoformat(), "source": said.source,
            "pattern": said.pattern, "at_most": said.at_most}  # fmt: skip
