"""warpwatch.toml read into a `Policy`, or a sentence that says what is wrong with it and what was wanted."""

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from warpwatch.ci.policy.policy import Policy

FILE_NAME = "warpwatch.toml"


class PolicyError(Exception):
    """The file cannot be used; the message names file, table and key, a line for each fault."""


def find_policy(folder: Path) -> Path | None:
    """The file of a folder, or the nearest above it, up to the root of its git repository; None if there is none."""
    for place in (folder.resolve(), *folder.resolve().parents):
        if (place / FILE_NAME).is_file():
            return place / FILE_NAME
        if (place / ".git").exists():
            break
    return None


def read_policy(path: Path | None) -> Policy:
    """The file's policy; the defaults where there is none. Raises PolicyError."""
    if path is None or not path.exists():
        return Policy()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read: {error}") from error
    return parse_policy(text, str(path))


def parse_policy(text: str, name: str) -> Policy:
    """The policy of a file's text; `name` is what errors call it. Raises PolicyError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{name}: is not TOML: {error}") from error
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        raise PolicyError("\n".join(f"{name}: {_sentence(each, data)}" for each in error.errors())) from error


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
    return repr(data)
