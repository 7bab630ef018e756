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
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import IO, Any, BinaryIO

import zstandard

from ..model.result_file import storable
from .import_limits import ARCHIVE_PATH_PARTS, LEFT_OUT_NAMED, MIB, ImportLimits
from .tar_members import HeaderTooLargeError, members

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
