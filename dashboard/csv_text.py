"""Texts in CSV, which spreadsheets open.

Spreadsheets run a cell that begins like a formula, and anybody's commit subject or benchmark may: such a text gets an
apostrophe in front (OWASP, "CSV Injection"), wherever we write CSV. JSON and Parquet have it as it is.
"""

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how one begins


def csv_text(value: Any) -> Any:
    """A cell as CSV may hold it; what is no text stays as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
