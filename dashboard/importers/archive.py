"""Archives of result files: .zip, .tar, .tar.gz/.bz2/.zst, and single compressed files; recognised by content.

Members are unpacked below one folder, as plain files. Members outside of it, links and devices are left out and named.
An archive that unpacks to more than the limits is refused before it fills disk or memory.
"""

import bz2
import errno
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import IO, Any, BinaryIO

import zstandard

from ..model.result_file import storable
from .import_limits import (
    ARCHIVE_HEADER_BYTES,
    ARCHIVE_HEADERS_IN_A_ROW,
    ARCHIVE_PATH_PARTS,
    LEFT_OUT_NAMED,
    MIB,
    ImportLimits,
)

_CHUNK = MIB
_COMPRESSED: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True),
}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ZIP_ENTRY = b"PK\x01\x02"
_TAR_MAGIC = slice(257, 262)
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    EOFError,
    NotImplementedError,
    ValueError,
    OverflowError,
    RecursionError,
)
_NO_SUCH_FILE = {errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL}


class ArchiveError(Exception):
    """An archive that cannot or must not be unpacked; the message says why."""


class ArchiveTooLargeError(ArchiveError):
    """An archive that unpacks to more than the limits."""


class NoRoomError(ArchiveError):
    """Not enough disk space for an archive."""


def is_archive(path: Path) -> bool:
    """Whether the file begins like an archive or a compressed file."""
    with path.open("rb") as file:
        start = file.read(512)
    return start.startswith((*_ZIP, *_COMPRESSED)) or start[_TAR_MAGIC] == b"ustar"


def unpack(archive: Path, folder: Path, limits: ImportLimits) -> tuple[str, ...]:
    """Unpack the archive's files below an empty folder; return the members left out, each with the reason.

    A single compressed file gets the archive's name without its suffix. Raises ArchiveError.
    """
    budget = _Budget(limits)
    with archive.open("rb") as file:
        start = file.read(512)
    try:
        if start.startswith(_ZIP):
            return _first(_unpack_zip(archive, folder, budget))
        with _decompressed(archive, start) as stream:
            is_tar = stream.read(512)[_TAR_MAGIC] == b"ustar"
        with _decompressed(archive, start) as stream:
            if is_tar:
                return _first(_unpack_tar(stream, folder, budget))
            with (folder / (archive.stem or "file")).open("wb") as file:
                if not _copy(_counted(stream, budget), file, budget):
                    most = limits.file_bytes // MIB
                    raise ArchiveTooLargeError(f"it unpacks to more than {most} MiB, the limit of one file")
            return ()
    except HeaderTooLargeError as error:
        raise ArchiveTooLargeError(str(error)) from error
    except _BROKEN as error:
        raise ArchiveError(f"a broken archive: {error or type(error).__name__}") from error
    except OSError as error:
        if error.errno is None:  # gzip and bz2 report corrupt data so
            raise ArchiveError(f"a broken archive: {error}") from error
        raise NoRoomError(f"it cannot be unpacked below {folder}: {error.strerror}") from error


def _first(left_out: Iterator[str]) -> tuple[str, ...]:
    """The first members left out, and the number of the rest."""
    first, number = [], 0
    for line in left_out:
        number += 1
        if number <= LEFT_OUT_NAMED:
            first.append(line)
    more = number - len(first)
    return tuple([*first, f"and {more:,} more members that were left out"] if more else first)


class _Budget:
    """Counts unpacked members and bytes; raises ArchiveTooLargeError beyond the limits."""

    def __init__(self, limits: ImportLimits) -> None:
        self.limits = limits
        self._bytes = self._entries = 0

    def entry(self) -> None:
        """Count a member, or a folder made for one."""
        self._entries += 1
        if self._entries > self.limits.archive_entries:
            most = f"{self.limits.archive_entries:,}"
            raise ArchiveTooLargeError(
                f"more than {most} members and folders, the limit of an archive; send it in parts"
            )

    def spend(self, count: int) -> None:
        """Count unpacked bytes, skipped ones included."""
        self._bytes += count
        if self._bytes > self.limits.archive_bytes:
            most = self.limits.archive_bytes // MIB
            raise ArchiveTooLargeError(f"it unpacks to more than {most} MiB, the limit of an archive; send it in parts")


@contextmanager
def _decompressed(archive: Path, start: bytes) -> Iterator[IO[bytes]]:
    opener = next((opens for magic, opens in _COMPRESSED.items() if start.startswith(magic)), None)
    with archive.open("rb") as file:
        if opener is None:
            yield file
        else:
            with opener(file) as stream:
                yield stream


def _unpack_tar(stream: IO[bytes], folder: Path, budget: _Budget) -> Iterator[str]:
    for member in members(stream, budget.spend):
        budget.entry()
        if member.is_folder:
            continue
        target = _target(folder, member.name)
        if member.problem is not None or isinstance(target, str):
            yield f"{_shown(member.name)}: {member.problem or target}"
        else:
            yield from _write(member.read, target, member.name, folder, budget)


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> Iterator[str]:
    with archive.open("rb") as file:  # zipfile reads the whole list of members at once
        tail = b""
        while chunk := file.read(_CHUNK):
            for _ in range((tail + chunk).count(_ZIP_ENTRY)):
                budget.entry()
            tail = chunk[-len(_ZIP_ENTRY) + 1 :]
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if member.is_dir():
                continue
            target = _target(folder, member.filename)
            if S_ISLNK(member.external_attr >> 16):
                yield f"{_shown(member.filename)}: neither a file nor a folder, but a link"
            elif member.flag_bits & 1:
                yield f"{_shown(member.filename)}: encrypted"
            elif isinstance(target, str):
                yield f"{_shown(member.filename)}: {target}"
            else:
                with opened.open(member) as source:
                    yield from _write(_counted(source, budget), target, member.filename, folder, budget)


def _counted(source: IO[bytes], budget: "_Budget") -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        chunk = source.read(size)
        budget.spend(len(chunk))
        return chunk

    return read


def _target(folder: Path, name: str) -> Path | str:
    """The path of a member, or the reason why it has none."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name or path.parts[0].endswith(":"):
        return "a path that leads out of the archive"
    if len(path.parts) > ARCHIVE_PATH_PARTS:
        return f"a path of {len(path.parts)} parts; the limit is {ARCHIVE_PATH_PARTS}"
    return folder.joinpath(*path.parts)


def _shown(name: str) -> str:
    """A member's name for a message, shortened and escaped."""
    return name[:200] if storable(name) else ascii(name[:200])


def _write(read: Callable[[int], bytes], target: Path, name: str, folder: Path, budget: _Budget) -> Iterator[str]:
    try:
        _make_folders(target.parent, folder, budget)
        file = target.open("wb")
    except UnicodeEncodeError:
        yield f"{_shown(name)}: no file can have that name"
        return
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE:
            raise
        yield f"{_shown(name)}: no file can have that name here ({error.strerror})"
        return
    with file:
        is_whole = _copy(read, file, budget)
    if not is_whole:
        target.unlink()
        most = budget.limits.file_bytes // MIB
        yield f"{_shown(name)}: more than {most} MiB, the limit of one file"


def _make_folders(folder: Path, top: Path, budget: _Budget) -> None:
    """Make a folder and its parents below `top`, each counted."""
    missing = []
    while folder != top and not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        budget.entry()
        each.mkdir()


def _copy(read: Callable[[int], bytes], file: BinaryIO, budget: _Budget) -> bool:
    """Copy the content; stop and return False beyond the limit of one file."""
    copied = 0
    while chunk := read(_CHUNK):
        copied += len(chunk)
        if copied > budget.limits.file_bytes:
            return False
        file.write(chunk)
    return True


_BLOCK = tarfile.BLOCKSIZE
_TAR_CHUNK = 1024 * 1024
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
        # Links, devices and folders have no content, even if their header has a size; by POSIX unknown kinds have.
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
        length = min(size, self._left, _TAR_CHUNK)
        chunk = self._read(length)
        if len(chunk) < length:
            raise EOFError("it ends within a member")
        self._left -= len(chunk)
        return chunk

    def end(self) -> None:
        """Skip the rest of the content."""
        while self.read(_TAR_CHUNK):
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
