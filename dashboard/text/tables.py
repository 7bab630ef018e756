"""Tables as plain text and as CSV."""

from collections.abc import Sequence
from typing import Any


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, align: str, width: int, shrink: int) -> str:
    """Rows with columns two spaces apart; `align` has one letter per column, l or r.

    If the table exceeds `width`, the gap becomes one space, then column `shrink` is narrowed to at least 12 characters.
    Cells are cut in the middle, so that the benchmark's name and its last parameters stay readable.
    """
    cells = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1
    over = sum(widths) + gap * (len(widths) - 1) - width
    if over > 0:
        widths[shrink] = max(widths[shrink] - over, 12)
    lines = []
    for row in cells:
        parts = [
            _cut(cell, size).rjust(size) if side == "r" else _cut(cell, size).ljust(size)
            for cell, size, side in zip(row, widths, align, strict=True)
        ]
        lines.append((" " * gap).join(parts).rstrip())
    return "\n".join(lines)


def _cut(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    tail = (size - 1) // 2
    return text[: size - 1 - tail] + "…" + text[len(text) - tail :]


# Texts in CSV, which spreadsheets open.
#
# Spreadsheets evaluate a cell that begins like a formula, and a commit subject or a benchmark's name may. Such a text
# gets an apostrophe in front (OWASP, "CSV Injection") in every CSV. JSON and Parquet have it unchanged.

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of a formula


def csv_text(value: Any) -> Any:
    """The cell, with an apostrophe before a text that begins like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
