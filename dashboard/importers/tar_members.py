"""Sequential reader of tar archives in bounded memory and time.

Python's tarfile reads extended headers of any size, searches them with regular expressions in quadratic time, recurses
once for each, and follows maps of sparse files. Here each header is one bounded read, and every byte is counted.
"""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from .import_limits import ARCHIVE_HEADER_BYTES, ARCHIVE_HEADERS_IN_A_ROW

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1024 * 1024
_ENCODING, _ERRORS = "utf-8", "surrogateescape"
_PAX = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE}
_GNU_LONG = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_FILES = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}
_SPARSE_CONTINUES = 504  # byte of a block of a sparse file's map: another block follows
_LONGEST_NUMBER = 20  # digits


class HeaderTooLargeError(Exception):
    """An extended header beyond the limits; the message names the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, a folder or something else in an archive."""

    name: str
    is_folder: bool
    problem: str | None  # why it cannot be read; None for files and folders
    read: Callable[[int], bytes]  # content, valid until the next member


def members(stream: IO[bytes], spend: Callable[[int], None]) -> Iterator[Member]:
    """Each member in order. `spend` is called with the number of bytes read, and may raise.

    Raises tarfile.TarError or ValueError if it is not a tar archive, EOFError if it is truncated, HeaderTooLargeError.
    """
    source = _Source(stream, spend)
    for_all: dict[str, bytes] = {}
    for_next: dict[str, bytes] = {}
    headers = 0
    while (block := source.block()) is not None:
        info = tarfile.TarInfo.frombuf(block, _ENCODING, _ERRORS)
        if info.type in _PAX | _GNU_LONG:
            headers += 1
            if headers > ARCHIVE_HEADERS_IN_A_ROW:
                raise HeaderTooLargeError(f"more than {ARCHIVE_HEADERS_IN_A_ROW} extended headers before one member")
            text = source.header(info.size)
            if info.type in _PAX:
                (for_all if info.type == tarfile.XGLTYPE else for_next).update(_records(text))
            elif info.type == tarfile.GNUTYPE_LONGNAME:
                for_next["path"] = text.partition(b"\0")[0]
            continue
        extended, for_next, headers = for_all | for_next, {}, 0
        name = extended["path"].decode(_ENCODING, _ERRORS) if "path" in extended else info.name
        is_sparse = info.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse.") for key in extended)
        if info.type == tarfile.GNUTYPE_SPARSE:
            source.skip_sparse_map(block)
        # Links, devices and folders have no content, whatever size they state; by POSIX unknown kinds have.
        has_content = is_sparse or info.type in _FILES or info.type not in tarfile.SUPPORTED_TYPES
        size = (_number(extended["size"]) if "size" in extended else info.size) if has_content else 0
        if size < 0:
            raise tarfile.ReadError(f"a member of {size} bytes")
        source.begin(size)
        is_file = info.type in _FILES and not is_sparse
        problem = None if is_file or info.isdir() else _problem(is_sparse)
        yield Member(name=name, is_folder=info.isdir(), problem=problem, read=source.read)
        source.end()


def _problem(is_sparse: bool) -> str:
    return "a sparse file" if is_sparse else "neither a file nor a folder, but a link or a device"


def _records(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Keys and values of a POSIX extended header: lines of "LENGTH KEY=VALUE"."""
    start = 0
    while start < len(text):
        space = text.find(b" ", start, start + _LONGEST_NUMBER)
        length = _number(text[start:space]) if space > start else 0
        record = text[space + 1 : start + length]
        key, equals, value = record.partition(b"=")
        if not equals or not key or not value.endswith(b"\n") or start + length > len(text):
            raise tarfile.ReadError("a malformed extended header")
        yield key.decode(_ENCODING, _ERRORS), value[:-1]
        start += length


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
        raise tarfile.ReadError(f"{digits[:_LONGEST_NUMBER]!r} in a number of a header")
    return int(digits)


class _Source:
    """Reads the archive in blocks, and counts the rest of a member's content."""

    def __init__(self, stream: IO[bytes], spend: Callable[[int], None]) -> None:
        self._stream, self._spend = stream, spend
        self._left = self._padding = 0

    def block(self) -> bytes | None:
        """The next header's block; None at the end of the archive."""
        block = self._read(_BLOCK)
        if not block or not any(block):
            return None
        if len(block) < _BLOCK:
            raise EOFError("it ends within a header")
        return block

    def header(self, size: int) -> bytes:
        """The content of an extended header."""
        if not 0 <= size <= ARCHIVE_HEADER_BYTES:
            raise HeaderTooLargeError(f"a member's header of {size} bytes; the limit is {ARCHIVE_HEADER_BYTES}")
        text = self._exactly(size)
        self._exactly(-size % _BLOCK)
        return text

    def skip_sparse_map(self, block: bytes) -> None:
        """Skip the blocks of a GNU sparse file's map."""
        continues = block[482]  # "isextended" of struct sparse_header in GNU tar's manual
        while continues:
            continues = self._exactly(_BLOCK)[_SPARSE_CONTINUES]

    def begin(self, size: int) -> None:
        """Begin a member's content."""
        self._left, self._padding = size, -size % _BLOCK

    def read(self, size: int) -> bytes:
        """The next bytes of the member's content; empty at its end."""
        length = min(size, self._left, _CHUNK)
        chunk = self._read(length)
        if len(chunk) < length:
            raise EOFError("it ends within a member")
        self._left -= len(chunk)
        return chunk

    def end(self) -> None:
        """Skip the rest of the content."""
        while self.read(_CHUNK):
            pass
        self._read(self._padding)  # optional after the last member

    def _exactly(self, size: int) -> bytes:
        block = self._read(size)
        if len(block) < size:
            raise EOFError("it ends within a header")
        return block

    def _read(self, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end: decompressors return short reads."""
        parts = []
        while size > 0 and (part := self._stream.read(size)):
            self._spend(len(part))
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
