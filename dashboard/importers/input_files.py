"""Untrusted input files: regular files only, JSON of bounded memory, errors of unreadable files."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import orjson

from .import_limits import JSON_MEMORY_BYTES, MIB


class BrokenFileError(Exception):
    """A malformed file; the message says what it has."""


class BeyondLimitError(BrokenFileError):
    """A file beyond a limit; the message says what it has, the limit, and what to do."""


# CPython 3.11: an object in a list takes 8 + 24 to 64 bytes, a text from 50 on; a dictionary's entry 60 to 150 with
# its key.
_VALUE_BYTES = 64
_ENTRY_BYTES = 160


def read_json(text: bytes) -> Any:
    """Parse JSON with orjson, three times as fast as Python's reader, which parses what orjson refuses.

    orjson has no NaN: a bare NaN is put in quotes, which `as_float` parses. Within a string the quotes break the JSON,
    and Python's reader parses the original.
    Raises BrokenFileError if the text is not JSON, and BeyondLimitError if its objects would take too much memory.
    """
    check_memory(text)
    if b"Infinity" not in text:
        try:
            return orjson.loads(text.replace(b"NaN", b'"NaN"') if b"NaN" in text else text)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(text)
    except ValueError as error:
        raise BrokenFileError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise BrokenFileError("JSON that is nested too deep to be a result file") from error


def check_memory(text: bytes) -> None:
    """Raise BeyondLimitError if the objects of one or more JSON texts would take too much memory.

    Counts commas, opening brackets and colons, also within strings: each value but the first follows a comma or a
    bracket, and each entry of an object has a colon.
    """
    values = text.count(b",") + text.count(b"[") + text.count(b"{")
    estimate = values * _VALUE_BYTES + text.count(b":") * _ENTRY_BYTES
    if estimate > JSON_MEMORY_BYTES:
        raise BeyondLimitError(
            f"about {values:,} JSON values, which would take {estimate // MIB:,} MiB of memory; the limit of one file "
            f"is {JSON_MEMORY_BYTES // MIB} MiB: give it in several files"
        )


class UnreadableFileError(OSError):
    """Not a regular file, or too large; the message says which."""


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file, or of a link to one: a pipe would block, a device never end. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe does not wait for a writer
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError(f"{path.name} is not a regular file, but a pipe, a device or a folder")
        if status.st_size > most_bytes:
            size, most = status.st_size / 1e6, most_bytes / 1e6
            raise UnreadableFileError(f"{path.name} has {size:.0f} MB; the limit of one file is {most:.0f} MB")
        return file.read(most_bytes)
