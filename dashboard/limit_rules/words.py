"""Lists as values in warpwatch.toml: TOML has arrays, a frozen table has tuples."""

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

Each = TypeVar("Each")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tuple_of_words(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _tuple(value)


Word = Annotated[str, Field(pattern=r"^[^\s\x00]([^\n\x00]*[^\s\x00])?$")]
"""Without a NUL, which no database takes."""

_Given = Word | list[Word]

Listed = Annotated[tuple[Each, ...], BeforeValidator(_tuple)]
"""An array, or [[tables]] of one name."""

Words = Annotated[tuple[Word, ...], BeforeValidator(_tuple_of_words, json_schema_input_type=_Given)]
"""`"rope"` or `["rope", "rms_norm"]`: one word needs no brackets."""
