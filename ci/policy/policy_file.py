"""warpwatch.toml read into a `Policy`, or a sentence that says what is wrong with it and what was wanted."""

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
LARGEST_FILE = 2**20  # bytes; what a person writes is a hundredth of it
_LONGEST_VALUE = 200


class PolicyError(Exception):
    """The file cannot be used; the message names file, table and key, a line for each fault."""


def find_policy(folder: Path) -> Path | None:
    """The file of a folder, or the nearest above it, up to the root of its git repository; None if there is none."""
    for place in (folder.resolve(), *folder.resolve().parents):
        if os.path.lexists(place / FILE_NAME):  # a folder or a dead link is no file, which whoever reads it will say
            return place / FILE_NAME
        if (place / ".git").exists():
            break
    return None


def read_policy(path: Path | None) -> Policy:
    """The file's policy; the defaults where there is none. Raises PolicyError."""
    return Policy() if path is None else parse_policy(_bytes_of(path), str(path))


def read_usable_policy(path: Path) -> tuple[Policy, str | None]:
    """The policy of those tables of a file that can be used, and what is wrong with the others."""
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
    """The policy of a file's content; `name` is what errors call it. Raises PolicyError."""
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
        raise PolicyError(f"{name}: is larger than {LARGEST_FILE // 2**10} KiB, which no policy is")
    try:
        return tomllib.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PolicyError(f"{name}: is no text in UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:  # ValueError: TOML's own, and Python's for a number of 5,000 digits
        raise PolicyError(f"{name}: is not TOML: {error}") from error


def _sentence(error: ErrorDetails, data: Mapping[str, Any]) -> str:
    """One fault: where, what stands there, what was wanted."""
    where, model, key = _place(error["loc"])
    said = error["msg"].removeprefix("Value error, ").replace("a valid tuple", "an array")
    said = said[:1].lower() + said[1:]
    if error["type"] == "extra_forbidden" and key is not None:
        known = list(model.model_fields)
        near = get_close_matches(key, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"{where} has no {'table' if model is Policy else 'key'} {key}; {meant}It knows: {', '.join(known)}"
    field = model.model_fields.get(key.partition(".")[0]) if key is not None else None
    if field is None:
        return f"{where} {said}"
    return f"{where} {key} = {_found(data, error['loc'])}: wanted {field.description} ({said})"


def _place(loc: Sequence[int | str]) -> tuple[str, type[BaseModel], str | None]:
    """The table as the file calls it, its model, and the key in it, "parameters.dtype" of one that is a table."""
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
    """The table that a field holds, be it one, several or perhaps none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _table_in(part)) is not None), None)


def _found(data: Any, loc: Sequence[int | str]) -> str:
    """What stands in the file there."""
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
