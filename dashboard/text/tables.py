"""Tables as plain text and as CSV."""

from collections.abc import Sequence
from typing import Any


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, align: str, width: int, shrink: int) -> str:
    """Columns two spaces apart, `align` a letter l or r a column.

    Where `width` is passed, columns move together to one space, then column `shrink` gives way.

    A cell cut short loses its middle, so that both the benchmark's name and its last parameters stay readable; no
    column goes below 12 letters.
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
# Spreadsheets run a cell that begins like a formula, and anybody's commit subject or benchmark may: such a text gets
# an apostrophe in front (OWASP, "CSV Injection"), wherever we write CSV. JSON and Parquet have it as it is.

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how one begins


def csv_text(value: Any) -> Any:
    """A cell as CSV may hold it; what is no text stays as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
