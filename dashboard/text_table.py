"""Tables in plain text."""

from collections.abc import Sequence


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
