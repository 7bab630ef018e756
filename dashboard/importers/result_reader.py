"""Reader of one result file and its context file; its records can be sent to another process.

A file whose stamp (size, times and inode, as in git's index) equals that of the last import is not opened.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..model.result_file import Context, ResultFile
from .asv import read_result
from .asv_context import read_context
from .import_limits import CONTEXT_FILE_BYTES, RESULT_FILE_BYTES
from .input_files import BrokenFileError, read_regular

_FRESH_NS = 2_000_000_000  # a younger file may be written again without a change of its times


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToRead:
    """A result file, and the digest of its imported content."""

    path: Path
    name: str  # in the project
    machine: str | None  # its folder's
    known_digest: str | None
    details: Mapping[str, str] = field(default_factory=dict)  # of the folder's machine.json


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """A file's content; `result` is None if it was imported already, or if it is `broken`."""

    file: FileToRead
    digest: str = ""
    stamp: str | None = None
    result: ResultFile | None = None
    context: Context | None = None
    broken: str | None = None  # why it cannot be read


def read_file(file: FileToRead) -> FileRead:
    """Read a file. Errors are returned in `broken`."""
    try:
        stamp = stamp_of(file.path)
        text = read_regular(file.path, RESULT_FILE_BYTES)
        context_file = context_path(file.path)
        context_text = read_regular(context_file, CONTEXT_FILE_BYTES) if context_file.exists() else None
        digest = _digest(text, context_text)
        if digest == file.known_digest:
            return FileRead(file=file, digest=digest, stamp=stamp)
        return FileRead(
            file=file,
            digest=digest,
            stamp=stamp,
            result=read_result(text, file.path.name),
            context=read_context(context_text) if context_text is not None else None,
        )
    except MemoryError:
        return FileRead(file=file, broken="not enough memory to read it")
    except (BrokenFileError, OSError) as error:
        return FileRead(file=file, broken=str(error))
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        return FileRead(file=file, broken=f"malformed asv result: {type(error).__name__}: {error}")


def context_path(path: Path) -> Path:
    """Path of a result file's context."""
    return path.with_name(path.stem + ".context.jsonl")


def stamp_of(path: Path) -> str | None:
    """A text that changes when the file or its context is written; None for files that are too young to tell."""
    now, parts = time.time_ns(), []
    for each in (path, context_path(path)):
        try:
            status = each.stat()
        except FileNotFoundError:
            parts.append("")
            continue
        if max(status.st_mtime_ns, status.st_ctime_ns) > now - _FRESH_NS:
            return None
        parts.append(f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}")
    return "|".join(parts)


def _digest(text: bytes, context: bytes | None) -> str:
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(b"\0" if context is None else b"\1" + context)
    return digest.hexdigest()
