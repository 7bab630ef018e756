"""Tar archives that cost more than they weigh: refused by size or shape before anything is worked out of them."""

import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from warpwatch.dashboard.cli.import_ import import_
from warpwatch.dashboard.importers.archive import ArchiveError, ArchiveTooLargeError, unpack
from warpwatch.dashboard.importers.import_limits import (
    ARCHIVE_HEADER_BYTES,
    ARCHIVE_HEADERS_IN_A_ROW,
    ARCHIVE_PATH_PARTS,
    LEFT_OUT_NAMED,
    MIB,
    ImportLimits,
)

PAX_TYPES = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE]
LONG_TYPES = [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
END = bytes(2 * tarfile.BLOCKSIZE)
FILE = ("box/a.json", b"{}")


def _raw(kind: bytes, content: bytes = b"", name: str = "x", size: int | None = None) -> bytes:
    """A header and its content, whatever tarfile thinks of them."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, len(content) if size is None else size
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _file(name: str = FILE[0], content: bytes = FILE[1]) -> bytes:
    return _raw(tarfile.REGTYPE, content, name)


def _record(key: str, value: bytes) -> bytes:
    body = b" " + key.encode() + b"=" + value + b"\n"
    length = len(body) + 1
    while length != len(body) + len(str(length)):
        length = len(body) + len(str(length))
    return str(length).encode() + body


def _unpack(content: bytes, tmp_path: Path, limits: ImportLimits | None = None) -> tuple[dict[str, bytes], list[str]]:
    archive, folder = tmp_path / "upload", tmp_path / "inside"
    archive.write_bytes(content)
    folder.mkdir()
    left_out = unpack(archive, folder, limits or ImportLimits())
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return files, list(left_out)


@pytest.mark.parametrize("kind", PAX_TYPES)
@pytest.mark.parametrize("size", [ARCHIVE_HEADER_BYTES + 1, 16 * MIB])
def test_an_extended_header_of_digits_is_refused_by_its_size(kind: bytes, size: int, tmp_path: Path) -> None:
    content = zstandard.compress(_raw(kind, b"1" * size) + _file() + END)
    with pytest.raises(ArchiveTooLargeError, match=f"header of {size} bytes; the limit is"):
        _unpack(content, tmp_path)


@pytest.mark.parametrize("kind", LONG_TYPES)
def test_a_long_name_is_refused_by_its_size(kind: bytes, tmp_path: Path) -> None:
    with pytest.raises(ArchiveTooLargeError, match="the limit is"):
        _unpack(_raw(kind, b"a" * (ARCHIVE_HEADER_BYTES + 1)) + _file() + END, tmp_path)


@pytest.mark.parametrize("kind", PAX_TYPES)
@pytest.mark.parametrize(
    "text",
    [
        b"1" * ARCHIVE_HEADER_BYTES,
        b"9 a=b",
        b"0 a=b\n",
        b"-5 a=b\n",
        b"99 a=b\n",
        b"7 a=b\nx",
        b"6 ab \n",
        b"\n",
        b"5 =b\n",
        b"12 hdrcharset",
        "²7 a=b\n".encode(),
    ],
)
def test_an_extended_header_of_another_shape_is_refused(kind: bytes, text: bytes, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"a malformed extended header|in a number of a header"):
        _unpack(_raw(kind, text) + _file() + END, tmp_path)


def test_a_well_formed_header_of_digits_takes_no_quadratic_time(tmp_path: Path) -> None:
    """tarfile of Python 3.11.7 searches each of these for as long as a minute."""
    header = _raw(tarfile.XHDTYPE, _record("comment", b"1" * (ARCHIVE_HEADER_BYTES - 100)))
    content = b"".join(header + _file(f"box/{number}.json") for number in range(50)) + END
    began = time.process_time()
    assert len(_unpack(content, tmp_path)[0]) == 50
    assert time.process_time() - began < 20  # tarfile: 50 times 10 s


def test_the_import_command_refuses_it_as_well(tmp_path: Path) -> None:
    archive = tmp_path / "results.tar.zst"
    archive.write_bytes(zstandard.compress(_raw(tarfile.XHDTYPE, b"1" * 16 * MIB) + _file() + END))
    assert archive.stat().st_size < 2000
    arguments = [str(archive), "--project", "demo", "--database", str(tmp_path / "history.db")]
    result = CliRunner().invoke(import_, arguments)
    assert result.exit_code != 0
    assert "a member's header of 16777216 bytes" in result.output


@pytest.mark.parametrize("kind", [*PAX_TYPES, *LONG_TYPES])
def test_headers_without_a_member_are_refused(kind: bytes, tmp_path: Path) -> None:
    header = _raw(kind, _record("comment", b"x"))
    with pytest.raises(ArchiveTooLargeError, match=f"more than {ARCHIVE_HEADERS_IN_A_ROW} extended headers"):
        _unpack(header * 20_000 + _file() + END, tmp_path)


@pytest.mark.parametrize(
    "form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT], ids=["POSIX", "GNU", "ustar"]
)
def test_what_tarfile_writes_is_read(form: int, tmp_path: Path) -> None:
    files = {"a.json": b"{}", f"{'folder/' * 12}{'n' * 90}.json": b"1" * 1000, "b (c).json": b""}
    if form != tarfile.USTAR_FORMAT:
        files[f"{'é' * 120}/größe.json"] = b"2" * 513
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, pax_headers={"comment": "of all"}) as tar:
        folder = tarfile.TarInfo("folder/")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1_700_000_000.25  # which POSIX keeps in an extended header
            if form != tarfile.PAX_FORMAT:
                member.mtime = 1_700_000_000
            tar.addfile(member, io.BytesIO(content))
    assert _unpack(buffer.getvalue(), tmp_path) == (files, [])


def test_a_size_of_more_digits_than_a_header_has_counts(tmp_path: Path) -> None:
    header = _raw(tarfile.XHDTYPE, _record("size", b"3") + _record("path", b"box/b.json"))
    content = header + _raw(tarfile.REGTYPE, b"[1]", "other", size=0) + _file() + END
    assert _unpack(content, tmp_path) == ({"box/b.json": b"[1]", FILE[0]: FILE[1]}, [])


def _sparse() -> Iterator[bytes]:
    old = bytearray(_raw(tarfile.GNUTYPE_SPARSE, b"", "old", size=512))
    old[482] = 1  # one more block of its map follows, and says that none does
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old)
    yield bytes(old) + bytes(512) + b"d" * 512
    for key in ("GNU.sparse.map", "GNU.sparse.major", "GNU.sparse.size"):
        yield _raw(tarfile.XHDTYPE, _record(key, b"1")) + _file("sparse", b"9" * 4000)


@pytest.mark.parametrize("content", list(_sparse()), ids=["old GNU", "0.1", "1.0", "0.0"])
def test_a_sparse_file_is_left_out_and_the_rest_goes_in(content: bytes, tmp_path: Path) -> None:
    files, (line,) = _unpack(content + _file() + END, tmp_path)
    assert files == dict([FILE])
    assert line.endswith(": a sparse file")


@pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, b"Z", tarfile.GNUTYPE_SPARSE], ids=["too large", "unknown", "sparse"]
)
@pytest.mark.parametrize("name", ["big", "../outside"])
def test_bytes_that_are_passed_over_count_as_unpacked(kind: bytes, name: str, tmp_path: Path) -> None:
    content = zstandard.compress(_raw(kind, bytes(40 * MIB), name) + _file() + END)
    limits = ImportLimits(archive_bytes=32 * MIB, file_bytes=MIB)
    with pytest.raises(ArchiveTooLargeError, match="unpacks to more than 32 MiB"):
        _unpack(content, tmp_path, limits)


def test_folders_count_as_entries(tmp_path: Path) -> None:
    content = b"".join(_file(f"{n}/" + "d/" * 6 + "f.json") for n in range(200)) + END
    with pytest.raises(ArchiveTooLargeError, match="more than 100 members and folders"):
        _unpack(content, tmp_path, ImportLimits(archive_entries=100))
    assert sum(1 for _ in (tmp_path / "inside").rglob("*")) <= 100


def test_a_path_of_many_parts_is_left_out_and_named(tmp_path: Path) -> None:
    names = ["d/" * parts + "f.json" for parts in (ARCHIVE_PATH_PARTS - 1, ARCHIVE_PATH_PARTS, 300, 1500)]
    files, left_out = _unpack(
        b"".join(_raw(tarfile.XHDTYPE, _record("path", name.encode())) + _file() for name in names) + END, tmp_path
    )
    assert list(files) == names[:1]
    assert [line.rpartition(": ")[2].split(" ")[3] for line in left_out] == [str(n) for n in (33, 301, 1501)]


def test_many_members_left_out_are_counted_and_not_all_named(tmp_path: Path) -> None:
    long = _raw(tarfile.XHDTYPE, _record("path", b"../" + b"x" * 5000))
    _, left_out = _unpack((long + _file()) * 500 + END, tmp_path)
    assert len(left_out) == LEFT_OUT_NAMED + 1
    assert max(map(len, left_out)) < 300
    assert left_out[-1] == f"and {500 - LEFT_OUT_NAMED} more members that were left out"


@pytest.mark.parametrize("cut", [100, 512, 700])
def test_a_truncated_archive_is_refused(cut: int, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="broken archive: it ends within"):
        _unpack((_file() + _file("b", b"x" * 500))[: 1024 + cut], tmp_path)
