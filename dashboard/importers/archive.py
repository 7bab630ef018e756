"""Archives of result files: .zip, .tar and .tar.gz/.bz2/.zst, and single files compressed so; told by content.

Members are written below a folder of ours, as plain files. What would lie outside of it, links and devices are left
out and named; an archive that unpacks to more than the limits is refused as a whole, before it fills disk or memory.
"""

import bz2
import errno
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import IO, Any, BinaryIO, cast

import zstandard

_MIB = 1024 * 1024
_CHUNK = _MIB
_LARGEST_HEADER = 16 * _MIB  # of a tar's member, its name and attributes included
_COMPRESSED: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True),
}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ZIP_ENTRY = b"PK\x01\x02"
_TAR_MAGIC = slice(257, 262)
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError,
    zstandard.ZstdError, EOFError, NotImplementedError, ValueError, OverflowError,
)  # fmt: skip
_NO_SUCH_FILE = {errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL}


class ArchiveError(Exception):
    """An archive that cannot be unpacked, or must not be; the message says why."""


class TooLargeError(ArchiveError):
    """An archive that unpacks to more than the limits."""


class NoRoomError(ArchiveError):
    """An archive that the disk cannot take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an archive may unpack to. A member of more than `file_bytes` is left out; the others refuse it whole."""

    total_bytes: int = 4096 * _MIB
    file_bytes: int = 512 * _MIB
    members: int = 100_000


def is_archive(path: Path) -> bool:
    """Whether the file begins like an archive or a compressed file."""
    with path.open("rb") as file:
        start = file.read(512)
    return start.startswith((*_ZIP, *_COMPRESSED)) or start[_TAR_MAGIC] == b"ustar"


def unpack(archive: Path, folder: Path, limits: Limits) -> tuple[str, ...]:
    """Writes the archive's files below an empty folder; returns the members left out, each with the reason.

    A single compressed file is written under the archive's name without its suffix.
    Raises ArchiveError.
    """
    budget = _Budget(limits)
    with archive.open("rb") as file:
        start = file.read(512)
    try:
        if start.startswith(_ZIP):
            return tuple(_unpack_zip(archive, folder, budget))
        with _decompressed(archive, start) as stream:
            is_tar = stream.read(512)[_TAR_MAGIC] == b"ustar"
        with _decompressed(archive, start) as stream:
            if is_tar:
                return tuple(_unpack_tar(stream, folder, budget))
            with (folder / (archive.stem or "file")).open("wb") as file:
                if not _copy(stream, file, budget):
                    raise TooLargeError(f"it unpacks to more than {limits.file_bytes // _MIB} MiB; that is the limit")
            return ()
    except _BROKEN as error:
        raise ArchiveError(f"a broken archive: {error or type(error).__name__}") from error
    except OSError as error:
        if error.errno is None:  # how gzip and bz2 say that the data are wrong
            raise ArchiveError(f"a broken archive: {error}") from error
        raise NoRoomError(f"it cannot be unpacked below {folder}: {error.strerror}") from error


class _Budget:
    """Counts what was unpacked, and stops at the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._bytes = self._members = 0

    def member(self) -> None:
        self._members += 1
        if self._members > self.limits.members:
            raise TooLargeError(f"more than {self.limits.members} members; that is the limit of an archive")

    def spend(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self.limits.total_bytes:
            raise TooLargeError(f"it unpacks to more than {self.limits.total_bytes // _MIB} MiB; that is the limit")


class _Stream(io.RawIOBase):
    """A tar's bytes for tarfile, which would read a header of any size that a member states into memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_HEADER:
            raise TooLargeError(f"a member's header of {size} bytes; at most {_LARGEST_HEADER} make sense")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


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
    with tarfile.open(fileobj=cast(IO[bytes], _Stream(stream)), mode="r:") as tar:
        while (member := tar.next()) is not None:
            budget.member()
            if member.size < 0:
                raise ArchiveError(f"a broken archive: {member.name} has {member.size} bytes")
            if member.isdir():
                continue
            reason = "neither a file nor a folder, but a link or a device" if not member.isreg() else None
            target = _target(folder, member.name)
            if reason or target is None:
                yield f"{member.name}: {reason or 'a path that leads out of the archive'}"
                continue
            source = tar.extractfile(member)
            assert source is not None
            yield from _write(source, target, member.name, budget)


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> Iterator[str]:
    with archive.open("rb") as file:  # zipfile reads the whole list of members at once, however long
        tail = b""
        while chunk := file.read(_CHUNK):
            for _ in range((tail + chunk).count(_ZIP_ENTRY)):
                budget.member()
            tail = chunk[-len(_ZIP_ENTRY) + 1 :]
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if member.is_dir():
                continue
            target = _target(folder, member.filename)
            if S_ISLNK(member.external_attr >> 16):
                yield f"{member.filename}: neither a file nor a folder, but a link"
            elif member.flag_bits & 1:
                yield f"{member.filename}: encrypted"
            elif target is None:
                yield f"{member.filename}: a path that leads out of the archive"
            else:
                with opened.open(member) as source:
                    yield from _write(source, target, member.filename, budget)


def _target(folder: Path, name: str) -> Path | None:
    """Where a member goes, or None if its name leads anywhere else."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name or path.parts[0].endswith(":"):
        return None
    return folder.joinpath(*path.parts)


def _write(source: IO[bytes], target: Path, name: str, budget: _Budget) -> Iterator[str]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("wb")
    except UnicodeEncodeError:
        yield f"{name!r}: no file can have that name"
        return
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE:
            raise
        yield f"{name[:200]}: no file can have that name here ({error.strerror})"
        return
    with file:
        is_whole = _copy(source, file, budget)
    if not is_whole:
        target.unlink()
        yield f"{name}: it has more than {budget.limits.file_bytes // _MIB} MiB, the most that is read of one file"


def _copy(source: IO[bytes], file: BinaryIO, budget: _Budget) -> bool:
    """Copies all of it, or stops and returns False where a file has more than is read of one."""
    copied = 0
    while chunk := source.read(_CHUNK):
        budget.spend(len(chunk))
        copied += len(chunk)
        if copied > budget.limits.file_bytes:
            return False
        file.write(chunk)
    return True
