"""Untrusted input files: regular files only, JSON of bounded memory, errors; folders for unpacked archives."""

import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
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


_PREFIX = "warpwatch-import-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, removed at the end. A lock distinguishes it from an abandoned one."""
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders of killed processes, which are not locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # another process has removed it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use
        finally:
            os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # removed as abandoned, before it was locked
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder, lock
        os.close(lock)


_HASH = re.compile(r"[0-9a-f]{7,64}")
_FULL_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

# Reads a file that belongs to a result file, by its path below the result file's folder; None if it is absent.
ReadSibling = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOverrides:
    """Facts from the command line or an upload's URL; they override those in the file."""

    commit: str | None = None  # full hash
    date_ms: int | None = None  # of the commit
    machine: str | None = None


def check_commit(commit: str, what: str) -> str:
    """The hash in lower case. Raises BrokenFileError for anything else, such as a branch or `unversioned`."""
    lower = commit.lower()
    if not _HASH.fullmatch(lower):
        raise BrokenFileError(
            f"{what} is {commit[:80]!a}; expected a commit's hash, 7 to 64 hexadecimal digits (git rev-parse HEAD)"
        )
    return lower


def is_full_hash(text: str) -> bool:
    """Whether the text is a complete SHA-1 or SHA-256 as git prints it."""
    return _FULL_HASH.fullmatch(text) is not None


def milliseconds(text: str) -> int:
    """Milliseconds since 1970 from ISO 8601 (UTC if no zone is named) or from seconds since 1970.

    Raises ValueError for anything else.
    """
    if re.fullmatch(r"\d{9,11}", text):
        return int(text) * 1000
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError as error:
        expected = "ISO 8601 (git show -s --format=%cI) or seconds (%ct)"
        raise ValueError(f"{text!r} is no date; expected {expected}") from error
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
