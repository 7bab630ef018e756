"""Reads one result file with the context beside it, anywhere: what is sent there and what comes back.

A file whose stamp (size, times and inode, as git's index has them) is that of the last import is not opened.
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

_FRESH_NS = 2_000_000_000  # a file touched so shortly ago may be touched again without its times telling


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToRead:
    """A result file, and the digest of its content that is in."""

    path: Path
    name: str  # in the project
    machine: str | None  # its folder's
    known_digest: str | None
    details: Mapping[str, str] = field(default_factory=dict)  # of the machine, as its folder's machine.json says


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """What a file holds: `result` is None if it is in already, or if there is a reason why it cannot be read."""

    file: FileToRead
    digest: str = ""
    stamp: str | None = None
    result: ResultFile | None = None
    context: Context | None = None
    broken: str | None = None


def read_file(file: FileToRead) -> FileRead:
    """Reads a file. Never raises for what is wrong with it."""
    try:
        stamp = stamp_of(file.path)
        text = read_regular(file.path, RESULT_FILE_BYTES)
        beside = context_path(file.path)
        context_text = read_regular(beside, CONTEXT_FILE_BYTES) if beside.exists() else None
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
        return FileRead(file=file, broken="there is not enough memory to read it")
    except (BrokenFileError, OSError) as error:
        return FileRead(file=file, broken=str(error))
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        return FileRead(file=file, broken=f"not as asv writes it: {type(error).__name__}: {error}")


def context_path(path: Path) -> Path:
    """Where the context of a result file is, if it has one."""
    return path.with_name(path.stem + ".context.jsonl")


def stamp_of(path: Path) -> str | None:
    """Changes whenever the file or the context beside it is written; None if that cannot be told yet."""
    now, parts = time.time_ns(), []
    for each in (path, context_path(path)):
        try:
            seen = each.stat()
        except FileNotFoundError:
            parts.append("")
            continue
        if max(seen.st_mtime_ns, seen.st_ctime_ns) > now - _FRESH_NS:
            return None
        parts.append(f"{seen.st_size}-{seen.st_mtime_ns}-{seen.st_ctime_ns}-{seen.st_ino}")
    return "|".join(parts)


def _digest(text: bytes, context: bytes | None) -> str:
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(b"\0" if context is None else b"\1" + context)
    return digest.hexdigest()
