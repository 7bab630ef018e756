"""Reports of changed compiled code, as Markdown and plain text."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate

from warpwatch.dashboard.model.quantities import change as change_of
from warpwatch.dashboard.model.quantities import quantity
from warpwatch.dashboard.text.labels import count, short_hash
from warpwatch.dashboard.text.markdown import code_span
from warpwatch.dashboard.text.tables import text_table

from .code_comparison import CodeComparison, Difference, KernelChange

_ROWS_OPEN = 20  # further ones are folded
_ROWS = 300
_MOST_CHARACTERS = 60_000  # of all rows: GitHub accepts 65536, GitLab a million
_MNEMONICS = 4
_FACTS = ("registers", "local memory instructions", "shared memory", "dynamic shared memory", "occupancy", "total")
_HEADER = ("kernel", "GPU", "registers", "spills", "shared", "dynamic", "occupancy", "instructions", "of these")
_WIDTH = 160


def as_markdown(comparison: CodeComparison) -> str:
    """Headline, the most important rows, and the rest folded."""
    lines = [f"### Compiled code: {headline(comparison)}", "", f"{_commits(comparison)}."]
    header, rows = _table(comparison, code_span)
    rows = _fitting(rows)
    if rows:
        lines += ["", *_markdown_table(header, rows[:_ROWS_OPEN])]
    if len(rows) > _ROWS_OPEN:
        summary = f"<summary>{count(len(rows) - _ROWS_OPEN, 'further kernel')}</summary>"
        lines += ["", "<details>", summary, "", *_markdown_table(header, rows[_ROWS_OPEN:]), "", "</details>"]
    if len(comparison.changes) > len(rows):
        lines += ["", f"{len(comparison.changes) - len(rows)} more are not listed."]
    if rows:
        lines += [
            "",
            "Spills are instructions on local memory; occupancy is the theoretical one. Most important first.",
        ]
    return "\n".join([*lines, ""])


def as_table(comparison: CodeComparison) -> str:
    """The same in plain text."""
    lines = [f"Compiled code: {headline(comparison)}", _commits(comparison)]
    if comparison.changes:
        header, rows = _table(comparison, str)
        lines += ["", text_table(header, rows, align="l" * len(header), width=_WIDTH, shrink=0)]
    return "\n".join(lines)


def headline(comparison: CodeComparison) -> str:
    """Numbers of kernels by kind of change, and how many are worse, in a sentence."""
    kinds = Counter[str](change.what for change in comparison.changes)
    if not kinds:
        return f"unchanged ({count(comparison.unchanged, 'kernel')} × architectures)"
    worse = [
        f"{number} {word}"
        for number, word in (
            (sum(each.growth("local memory instructions") > 0 for each in comparison.changes), "with more spills"),
            (sum(each.growth("occupancy") < 0 for each in comparison.changes), "with less occupancy"),
            (sum(each.growth("registers") > 0 for each in comparison.changes), "with more registers"),
        )
        if number
    ]
    words = {"changed": "changed", "new": "new", "gone": "gone", "reordered": "reordered with equal counts"}
    parts = [f"{kinds[what]} {word}" for what, word in words.items() if kinds[what]]
    if worse:
        parts[0] += f" ({', '.join(worse)})" if kinds["changed"] else ""
    return ", ".join([*parts, f"{comparison.unchanged} unchanged"])


def _commits(comparison: CodeComparison) -> str:
    same = [name for name, is_same in sorted(comparison.runs_same_code.items()) if is_same]
    others = len(comparison.runs_same_code) - len(same)
    commits = f"{short_hash(comparison.head)} against {short_hash(comparison.base)}"
    if same and not others:
        return f"{commits}; all executed code is equal on every architecture"
    return f"{commits}; all executed code is equal on {', '.join(same)}" if same else commits


def _fitting(rows: list[Sequence[str]]) -> list[Sequence[str]]:
    """As many rows as a comment can hold."""
    sizes = accumulate(sum(len(cell) + 3 for cell in row) for row in rows)
    return rows[: sum(size <= _MOST_CHARACTERS for size in sizes)]


def _table(comparison: CodeComparison, quote: Callable[[str], str]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Header and rows without empty columns; `quote` escapes names, which are untrusted."""
    rows = [_cells(change, quote) for change in comparison.changes[:_ROWS]]
    columns = [column for column in range(len(_HEADER)) if any(row[column] for row in rows)]
    return [_HEADER[column] for column in columns], [[row[column] for column in columns] for row in rows]


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cells(change: KernelChange, quote: Callable[[str], str]) -> tuple[str, ...]:
    facts = [_cell(change.fact(name)) for name in _FACTS]
    mix = ", ".join(
        f"{quote(each.name)} {each.growth:+.0f}".replace("-", "−") for each in change.instructions[1 : 1 + _MNEMONICS]
    )
    note = {"changed": mix, "new": "new", "gone": "gone", "reordered": "equal counts, reordered"}[change.what]
    return (quote(change.kernel), change.architecture, *facts, note)


def _cell(fact: Difference | None) -> str:
    if fact is None:
        return ""
    values = [quantity(value, fact.unit) for value in (fact.before, fact.after) if value is not None]
    if fact.name == "total" and fact.before and fact.after is not None:
        values[-1] += f" ({change_of(fact.growth / fact.before)})"
    return " → ".join(values)
