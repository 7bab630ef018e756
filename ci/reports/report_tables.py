"""Tables of a report in Markdown, with strangers' words in code spans alone."""

from collections.abc import Sequence

from warpwatch.dashboard.model.quantities import change
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import change_with_interval, levels, remark, times_noise
from warpwatch.dashboard.text.markdown import code_span, longest_run

from ..gate.artefact import ArtefactRow, GateArtefact
from . import gate_labels
from .report_links import Links

# Markdown out of a stranger's words: they stand in code spans (`code_span.py` says why) and code blocks alone.


def block(text: str) -> str:
    """The text as lines of code, for a shell to be pasted into."""
    fence = "`" * max(longest_run(text) + 1, 3)
    return f"{fence}sh\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> tuple[str, int]:
    """A table of finished cells, as many rows as `most` characters hold; and how many were left out.

    A column whose name begins with ">" is set to the right. Without rows it is empty.
    """
    head = [
        "| " + " | ".join(name.removeprefix(">") for name in columns) + " |",
        "|" + "|".join("--:" if name.startswith(">") else "---" for name in columns) + "|",
    ]
    lines, used = head, sum(size(line) + 1 for line in head)
    for number, cells in enumerate(rows):
        # A cell ends at a bar, even in code.
        line = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        used += size(line) + 1
        if used > most:
            return ("\n".join(lines) if number else ""), len(rows) - number
        lines.append(line)
    return ("\n".join(lines) if rows else ""), 0


def details(summary: str, text: str) -> str:
    """Hidden until asked for. `summary` is our own words: no Markdown is read there."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def size(text: str) -> int:
    """Characters as the forges' own languages count them: those beyond 16 bits are two."""
    return len(text) + sum(sign > "\uffff" for sign in text)


_MOVED = (Verdict.REGRESSED, Verdict.IMPROVED)
_COLUMNS = ("", "series", ">base → head", ">Δ (95 %)", ">times the noise of a run", ">controls")
_EMPTY = {"", "–"}
_FOLDED = (
    (Verdict.INCONCLUSIVE, "inconclusive"),
    (Verdict.UNCHANGED, "unchanged"),
    (Verdict.MISSING, "with nothing to compare"),
)
_AROUND = 200  # characters of the words around a folded table


def has_moved(row: ArtefactRow) -> bool:
    """Whether a report shows it first: it moved, or fails at head."""
    return row.fails or row.verdict in _MOVED


def moved_rows(artefact: GateArtefact, links: Links, most: int) -> list[str]:
    """The rows that moved, in about `most` characters."""
    rows = [row for row in artefact.rows if has_moved(row)]
    cells = [_cells(artefact, row, links) for row in rows]
    for row, each in zip(rows, cells, strict=True):
        each[0] = f"**{row.verdict.value}**" if row.is_blocking else row.verdict.value
    text, left = _narrow_table(cells, most)
    left += sum(each.count for each in artefact.left_out if each.fails or each.verdict in _MOVED)
    return [part for part in (text, _no_room(left, "that moved")) if part]


def compiled_code(artefact: GateArtefact, most: int) -> list[str]:
    """The kernels that were compiled to something else."""
    cells = [
        [code_span(each.kernel), code_span(each.architecture), gate_labels.code_facts(each, code_span)]
        for each in artefact.code
    ]
    text, left = table(("compiled otherwise", "for", "what changed"), cells, most)
    return [part for part in (text, _no_room(left + artefact.code_left_out, "compiled otherwise")) if part]


def folded_rows(artefact: GateArtefact, links: Links, most: int) -> list[str]:
    """Rows that did not move, folded: the inconclusive ones first."""
    parts = []
    for verdict, what in _FOLDED:
        rows = [row for row in artefact.rows if row.verdict is verdict and not row.fails]
        beyond = artefact.count(verdict) - sum(row.verdict is verdict for row in artefact.rows)
        if not rows and not beyond:
            continue
        text, left = _narrow_table([_cells(artefact, row, links) for row in rows], most - _AROUND)
        inside = [part for part in (text, _no_room(left + beyond, "")) if part]
        parts.append(details(f"{len(rows) + beyond} {what}", "\n\n".join(inside)))
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
    """Without the columns in which no row has anything."""
    shown = [at for at in range(len(_COLUMNS)) if any(each[at] not in _EMPTY for each in cells)]
    return table([_COLUMNS[at] for at in shown], [[each[at] for at in shown] for each in cells], most)


def _unbroken(told: str) -> str:
    """A line ends between quantities, not between a number and its unit."""
    if not told.strip("– →"):
        return "–"
    if "`" in told:
        return told  # of a unit that nobody knows
    kept = told.replace(" ", "\N{NO-BREAK SPACE}")
    for before in ("→", "(", "…"):
        kept = kept.replace(f"\N{NO-BREAK SPACE}{before}", f" {before}")
    return kept


def _no_room(left: int, which: str) -> str:
    return f"{left} more {which}".strip() + ": no room here." if left else ""


def widths(parts: Sequence[str]) -> int:
    """Characters of paragraphs with the blank lines between them."""
    return sum(size(part) + 2 for part in parts)
