"""Markdown tables of a report."""

from collections.abc import Sequence

from warpwatch.dashboard.model.quantities import change
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import change_with_interval, levels, remark, times_noise
from warpwatch.dashboard.text.markdown import code_span, longest_run

from ..gate.artefact import ArtefactRow, GateArtefact
from . import gate_labels
from .gate_labels import Links

# Untrusted texts are only in code spans (see `dashboard/text/markdown.py`) and code blocks.


def block(text: str) -> str:
    """The text as a code block for a shell."""
    fence = "`" * max(longest_run(text) + 1, 3)
    return f"{fence}sh\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> tuple[str, int]:
    """A table with as many rows as fit into `most` characters, and the number of rows left out.

    Cells are Markdown. A column whose name starts with ">" is right-aligned. Empty without rows.
    """
    head = [
        "| " + " | ".join(name.removeprefix(">") for name in columns) + " |",
        "|" + "|".join("--:" if name.startswith(">") else "---" for name in columns) + "|",
    ]
    lines, used = head, sum(size(line) + 1 for line in head)
    for number, cells in enumerate(rows):
        # A bar ends a cell, even in code.
        line = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        used += size(line) + 1
        if used > most:
            return ("\n".join(lines) if number else ""), len(rows) - number
        lines.append(line)
    return ("\n".join(lines) if rows else ""), 0


def details(summary: str, text: str) -> str:
    """A folded text. `summary` is our own text, in which forges read no Markdown."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def size(text: str) -> int:
    """Number of UTF-16 units, which forges count."""
    return len(text) + sum(sign > "\uffff" for sign in text)


_CHANGED = (Verdict.REGRESSED, Verdict.IMPROVED)
_COLUMNS = ("", "series", ">base → head", ">Δ (95 %)", ">times the noise of a run", ">controls")
_EMPTY = {"", "–"}
_FOLDED = (
    (Verdict.INCONCLUSIVE, "inconclusive"),
    (Verdict.UNCHANGED, "unchanged"),
    (Verdict.MISSING, "with nothing to compare"),
)
_AROUND = 200  # characters around a folded table


def has_changed(row: ArtefactRow) -> bool:
    """Whether the row regressed, improved or fails at head."""
    return row.fails or row.verdict in _CHANGED


def changed_rows(artefact: GateArtefact, links: Links, most: int) -> list[str]:
    """The changed rows, in about `most` characters."""
    rows = [row for row in artefact.rows if has_changed(row)]
    cells = [_cells(artefact, row, links) for row in rows]
    for row, each in zip(rows, cells, strict=True):
        each[0] = f"**{row.verdict.value}**" if row.is_blocking else row.verdict.value
    text, left = _narrow_table(cells, most)
    left += sum(each.count for each in artefact.left_out if each.fails or each.verdict in _CHANGED)
    return [part for part in (text, _not_shown(left, "changed rows")) if part]


def compiled_code(artefact: GateArtefact, most: int) -> list[str]:
    """The kernels with changed machine code."""
    cells = [
        [code_span(each.kernel), code_span(each.architecture), gate_labels.code_facts(each, code_span)]
        for each in artefact.code
    ]
    text, left = table(("changed kernel", "for", "changes"), cells, most)
    return [part for part in (text, _not_shown(left + artefact.code_left_out, "changed kernels")) if part]


def folded_rows(artefact: GateArtefact, links: Links, most: int) -> list[str]:
    """The other rows, folded by verdict."""
    parts = []
    for verdict, what in _FOLDED:
        rows = [row for row in artefact.rows if row.verdict is verdict and not row.fails]
        left_out = artefact.count(verdict) - sum(row.verdict is verdict for row in artefact.rows)
        if not rows and not left_out:
            continue
        text, left = _narrow_table([_cells(artefact, row, links) for row in rows], most - _AROUND)
        content = [part for part in (text, _not_shown(left + left_out, "rows")) if part]
        parts.append(details(f"{len(rows) + left_out} {what}", "\n\n".join(content)))
        most -= size(parts[-1]) + 2
    return parts


def _cells(artefact: GateArtefact, row: ArtefactRow, links: Links) -> list[str]:
    address = links.series(artefact, row)
    name = code_span(gate_labels.name(row)) + (f" [history]({address})" if address else "")
    why = remark(row, code_span)
    return [
        "",
        f"{name}<br>{why}" if why else name,
        _unbroken(levels(row, code_span)),
        _unbroken(change_with_interval(row)),
        times_noise(row),
        change(row.control_change),
    ]


def _narrow_table(cells: Sequence[Sequence[str]], most: int) -> tuple[str, int]:
    """A table without empty columns."""
    columns = [at for at in range(len(_COLUMNS)) if any(row[at] not in _EMPTY for row in cells)]
    return table([_COLUMNS[at] for at in columns], [[row[at] for at in columns] for row in cells], most)


def _unbroken(text: str) -> str:
    """The text with no-break spaces between numbers and units."""
    if not text.strip("– →"):
        return "–"
    if "`" in text:
        return text  # with an unknown unit
    unbroken = text.replace(" ", "\N{NO-BREAK SPACE}")
    for before in ("→", "(", "…"):
        unbroken = unbroken.replace(f"\N{NO-BREAK SPACE}{before}", f" {before}")
    return unbroken


def _not_shown(left: int, what: str) -> str:
    return f"{left} more {what} not shown." if left else ""


def widths(parts: Sequence[str]) -> int:
    """Size of paragraphs with blank lines between them."""
    return sum(size(part) + 2 for part in parts)
