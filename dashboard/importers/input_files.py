"""Input files from strangers: regular files alone, JSON within a bound of memory, reasons to leave one out."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import orjson

from .import_limits import JSON_MEMORY_BYTES, MIB

# Why a file is left out whole.


class BrokenFileError(Exception):
    """A file that cannot be understood; the message says what was seen."""


class BeyondLimitError(BrokenFileError):
    """A file that holds more than a limit allows; the message says what it has, the limit, and what to do."""


# CPython 3.11: an object in a list takes 8 + 24 to 64 bytes, a text from 50 on; a dictionary's entry 60 to 150 with
# its key.
_VALUE_BYTES = 64
_ENTRY_BYTES = 160


def read_json(text: bytes) -> Any:
    """Python's JSON, by a reader that is three times as fast but knows no NaN.

    A bare NaN is handed to it in quotes, which `as_float` reads as well. In a string the quotes would end it, so what
    had one there is no JSON any more: that, and whatever else it refuses, is left to Python's own reader.
    Raises BrokenFileError if it is not JSON, and BeyondLimitError if its objects would take too much memory.
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
    """Raises BeyondLimitError if the objects of a JSON text, or of several, would take too much memory.

    Each value but the first follows a comma or an opening bracket, and each entry of an object has a colon; those
    within strings are counted as well.
    """
    values = text.count(b",") + text.count(b"[") + text.count(b"{")
    estimate = values * _VALUE_BYTES + text.count(b":") * _ENTRY_BYTES
    if estimate > JSON_MEMORY_BYTES:
        raise BeyondLimitError(
            f"about {values:,} JSON values, which would take {estimate // MIB:,} MiB of memory; the limit of one file "
            f"is {JSON_MEMORY_BYTES // MIB} MiB: give it in several files"
        )


# Files of folders that somebody else made: a pipe would block its reader for ever, a device never end.


class UnreadableFileError(OSError):
    """No regular file, or one larger than is read; the message says which."""


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file, or of a link to one. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that opening a pipe does not wait for a writer
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError(f"{path.name} is no regular file, but a pipe, a device or a folder")
        if status.st_size > most_bytes:
            size, most = status.st_size / 1e6, most_bytes / 1e6
            raise UnreadableFileError(f"{path.name} has {size:.0f} MB; at most {most:.0f} MB of one file are read")
        return file.read(most_bytes)
