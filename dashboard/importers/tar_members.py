"""The members of a tar archive, read front to back in bounded memory and time.

Python's tarfile reads extended headers of any size, searches them with regular expressions that take quadratic time,
calls itself once for each, and follows maps of sparse files. Results need none of that: here each header is one
bounded read, and everything that is read or passed over is counted.
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
_SPARSE_CONTINUES = 504  # in a block of a sparse file's map: whether another one follows
_LONGEST_NUMBER = 20  # digits


class HeaderTooLargeError(Exception):
    """An extended header beyond the limits; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, a folder or something else in an archive."""

    name: str
    is_folder: bool
    problem: str | None  # why it is no file that can be read; None of files and folders
    read: Callable[[int], bytes]  # its content, valid until the next member is asked for


def members(stream: IO[bytes], spend: Callable[[int], None]) -> Iterator[Member]:
    """Each member in order. `spend` is called with the bytes of the archive as they are read, and may raise.

    Raises tarfile.TarError or ValueError for what is no tar archive, EOFError where it ends too early,
    HeaderTooLargeError.
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
        told, for_next, headers = for_all | for_next, {}, 0
        name = told["path"].decode(_ENCODING, _ERRORS) if "path" in told else info.name
        is_sparse = info.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse.") for key in told)
        if info.type == tarfile.GNUTYPE_SPARSE:
            source.pass_sparse_map(block)
        # Links, devices and folders have no content, whatever size they state; of unknown kinds POSIX says they have.
        has_content = is_sparse or info.type in _FILES or info.type not in tarfile.SUPPORTED_TYPES
        size = (_number(told["size"]) if "size" in told else info.size) if has_content else 0
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
    """The keys and values of a POSIX extended header: records of "LENGTH KEY=VALUE" and a line's end."""
    place = 0
    while place < len(text):
        space = text.find(b" ", place, place + _LONGEST_NUMBER)
        length = _number(text[place:space]) if space > place else 0
        record = text[space + 1 : place + length]
        key, equals, value = record.partition(b"=")
        if not equals or not key or not value.endswith(b"\n") or place + length > len(text):
            raise tarfile.ReadError("an extended header that is not as POSIX describes it")
        yield key.decode(_ENCODING, _ERRORS), value[:-1]
        place += length


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
        raise tarfile.ReadError(f"{digits[:_LONGEST_NUMBER]!r} where a header has a number")
    return int(digits)


class _Source:
    """Reads the archive in blocks; keeps count of what is left of a member's content."""

    def __init__(self, stream: IO[bytes], spend: Callable[[int], None]) -> None:
        self._stream, self._spend = stream, spend
        self._left = self._padding = 0

    def block(self) -> bytes | None:
        """The next header's block, None at the archive's end."""
        block = self._read(_BLOCK)
        if not block or not any(block):
            return None
        if len(block) < _BLOCK:
            raise EOFError("it ends within a header")
        return block

    def header(self, size: int) -> bytes:
        """The content of an extended header."""
        if not 0 <= size <= ARCHIVE_HEADER_BYTES:
            raise HeaderTooLargeError(
                f"a member's header of {size} bytes; the limit is {ARCHIVE_HEADER_BYTES}, which holds any path"
            )
        text = self._exactly(size)
        self._exactly(-size % _BLOCK)
        return text

    def pass_sparse_map(self, block: bytes) -> None:
        """Passes over the blocks of a GNU sparse file's map that follow its header."""
        continues = block[482]  # "isextended" of struct sparse_header in GNU tar's manual
        while continues:
            continues = self._exactly(_BLOCK)[_SPARSE_CONTINUES]

    def begin(self, size: int) -> None:
        """Makes a member's content what is read next."""
        self._left, self._padding = size, -size % _BLOCK

    def read(self, size: int) -> bytes:
        """Some of the member's content; nothing at its end."""
        wanted = min(size, self._left, _CHUNK)
        chunk = self._read(wanted)
        if len(chunk) < wanted:
            raise EOFError("it ends within a member")
        self._left -= len(chunk)
        return chunk

    def end(self) -> None:
        """Passes over what nobody has read of the content."""
        while self.read(_CHUNK):
            pass
        self._read(self._padding)  # which the last member of an archive may lack

    def _exactly(self, size: int) -> bytes:
        found = self._read(size)
        if len(found) < size:
            raise EOFError("it ends within a header")
        return found

    def _read(self, size: int) -> bytes:
        """Up to so many bytes; fewer only at the stream's end, as decompressors give what they have."""
        parts = []
        while size > 0 and (part := self._stream.read(size)):
            self._spend(len(part))
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
