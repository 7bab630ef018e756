"""Markdown out of a stranger's words: they stand in code spans (`code_span.py` says why) and code blocks alone."""

from collections.abc import Sequence

from warpwatch.dashboard.code_span import longest_run


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
