"""Reads warpwatch.toml into a `Policy`, with errors that name the key and the expected value."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .policy_model import Policy

FILE_NAME = "warpwatch.toml"
LARGEST_FILE = 2**20  # bytes; a hundred times a usual file
_LONGEST_VALUE = 200


class PolicyError(Exception):
    """The file cannot be used; the message names file, table and key, a line for each fault."""


def find_policy(folder: Path) -> Path | None:
    """The file of a folder, or the nearest above it, up to the root of its git repository; None if there is none."""
    for parent in (folder.resolve(), *folder.resolve().parents):
        if os.path.lexists(parent / FILE_NAME):  # also a folder or a dead link, which its reader reports
            return parent / FILE_NAME
        if (parent / ".git").exists():
            break
    return None


def read_policy(path: Path | None) -> Policy:
    """The file's policy; without a file the defaults. Raises PolicyError."""
    return Policy() if path is None else parse_policy(_bytes_of(path), str(path))


def read_usable_policy(path: Path) -> tuple[Policy, str | None]:
    """The policy of a file's valid tables, and the error in the others."""
    try:
        return read_policy(path), None
    except PolicyError as error:
        fault = str(error)
    usable: dict[str, Any] = {}
    with suppress(PolicyError):
        for name, table in _tables(_bytes_of(path), str(path)).items():
            with suppress(ValidationError):
                Policy.model_validate({name: table})
                usable[name] = table
    return Policy.model_validate(usable), fault


def parse_policy(content: str | bytes, name: str) -> Policy:
    """The policy of a file's content; `name` is the file's in errors. Raises PolicyError."""
    data = _tables(content, name)
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        raise PolicyError("\n".join(f"{name}: {_sentence(each, data)}" for each in error.errors())) from error


def _bytes_of(path: Path) -> bytes:
    """Raises PolicyError."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            return b""
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from error


def _tables(content: str | bytes, name: str) -> dict[str, Any]:
    """Raises PolicyError."""
    if len(content) > LARGEST_FILE:
        raise PolicyError(f"{name}: is larger than {LARGEST_FILE // 2**10} KiB")
    try:
        return tomllib.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PolicyError(f"{name}: is not UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:  # ValueError: invalid TOML, or a number of 5,000 digits
        raise PolicyError(f"{name}: is not TOML: {error}") from error


def _sentence(error: ErrorDetails, data: Mapping[str, Any]) -> str:
    """One error: the key, its value, and the expected value."""
    where, model, key = _locate(error["loc"])
    reason = error["msg"].removeprefix("Value error, ").replace("a valid tuple", "an array")
    reason = reason[:1].lower() + reason[1:]
    if error["type"] == "extra_forbidden" and key is not None:
        known = list(model.model_fields)
        near = get_close_matches(key, known, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        return f"{where} has no {'table' if model is Policy else 'key'} {key}; {guess}Known: {', '.join(known)}"
    field = model.model_fields.get(key.partition(".")[0]) if key is not None else None
    if field is None:
        return f"{where} {reason}"
    return f"{where} {key} = {_value_at(data, error['loc'])}: expected {field.description} ({reason})"


def _locate(loc: Sequence[int | str]) -> tuple[str, type[BaseModel], str | None]:
    """The table's name in the file, its model, and the key, such as "parameters.dtype"."""
    model: type[BaseModel] = Policy
    names: list[str] = []
    number: int | None = None
    keys: list[str] = []
    for part in loc:
        if isinstance(part, int):
            number = number if keys else part + 1
            continue
        field = model.model_fields.get(part)
        inner = _table_in(field.annotation) if field is not None and not keys else None
        if inner is None:
            keys.append(part)
        else:
            model, number = inner, None
            names.append(part)
    key = ".".join(keys) or None
    if not names:
        return "the file", model, key
    table = ".".join(names)
    return (f"[[{table}]] number {number}" if number else f"[{table}]"), model, key


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """The model of the table or tables in a field; None for other fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((table for part in get_args(annotation) if (table := _table_in(part)) is not None), None)


def _value_at(data: Any, loc: Sequence[int | str]) -> str:
    """The file's value at that location, shortened."""
    for part in loc:
        if isinstance(data, Mapping) and part in data:
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
    try:
        shown = repr(data)
    except ValueError:
        return "a number of thousands of digits"
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"
