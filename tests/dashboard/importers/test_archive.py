"""Archives, honest and hostile: what is in them lands below the folder, and nothing anywhere else."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from warpwatch.dashboard.importers.archive import ArchiveError, ArchiveTooLargeError, NoRoomError, is_archive, unpack
from warpwatch.dashboard.importers.import_limits import ImportLimits

SMALL = ImportLimits(archive_bytes=1024 * 1024, archive_entries=50)
FILES = {"box/machine.json": b'{"machine": "box"}', "box/a b (c).json": b"{}" * 3000}


def _member(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(content)
    return member


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


HONEST = _tar(*((_member(name, content), content) for name, content in FILES.items()))


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[..., tuple[dict[str, bytes], tuple[str, ...]]]:
    """Unpacks an archive two folders down; gives the files by name and what was left out. Nothing else may appear."""

    def run(content: bytes, limits: ImportLimits = SMALL) -> tuple[dict[str, bytes], tuple[str, ...]]:
        folder = tmp_path / "deep" / "inside"
        folder.mkdir(parents=True)
        archive = tmp_path / "archive.any"
        archive.write_bytes(content)
        left_out = unpack(archive, folder, limits)
        everything = {path for path in tmp_path.rglob("*") if not path.is_dir()} - {archive}
        assert all(path.is_relative_to(folder) and not path.is_symlink() for path in everything), everything
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in everything}, left_out

    return run


@pytest.mark.parametrize(
    "content",
    [
        HONEST,
        gzip.compress(HONEST),
        bz2.compress(HONEST),
        zstandard.compress(HONEST),
        _zip(FILES),
        zstandard.compress(HONEST[:512]) + zstandard.compress(HONEST[512:]),
    ],
    ids=["tar", "tar.gz", "tar.bz2", "tar.zst", "zip", "tar.zst of two frames"],
)
def test_every_kind_of_archive_gives_its_files(unpacked: Callable[..., object], content: bytes) -> None:
    assert unpacked(content) == (FILES, ())


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstandard.compress])
def test_a_compressed_file_is_one_file(unpacked: Callable[..., object], compress: Callable[[bytes], bytes]) -> None:
    assert unpacked(compress(b'{"benchmarks": []}')) == ({"archive": b'{"benchmarks": []}'}, ())


def test_an_archive_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for content, expected in ((HONEST, True), (_zip(FILES), True), (b'{"a": 1}', False), (b"", False)):
        path.write_bytes(content)
        assert is_archive(path) is expected


OUTSIDE = ("../out.json", "/tmp/warpwatch-out.json", "a/../../../out.json", "..\\..\\out.json", "C:\\out.json", "..")


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("pack", [lambda name: _tar((_member(name, b"x"), b"x")), lambda name: _zip({name: b"x"})])
def test_a_path_that_leads_out_is_left_out_and_named(
    unpacked: Callable[..., tuple[dict[str, bytes], tuple[str, ...]]], name: str, pack: Callable[[str], bytes]
) -> None:
    files, left_out = unpacked(pack(name))
    assert files == {}
    assert len(left_out) == 1
    assert "leads out" in left_out[0]


def test_links_and_devices_are_left_out_and_the_rest_goes_in(
    unpacked: Callable[..., tuple[dict[str, bytes], tuple[str, ...]]],
) -> None:
    files, left_out = unpacked(
        _tar(
            (_member("secret", kind=tarfile.SYMTYPE, link="/etc/passwd"), b""),
            (_member("folder", kind=tarfile.SYMTYPE, link="/tmp"), b""),
            (_member("folder/file.json", b"{}"), b"{}"),  # were the link followed, this would land in /tmp
            (_member("hard", kind=tarfile.LNKTYPE, link="../../archive.any"), b""),
            (_member("null", kind=tarfile.CHRTYPE), b""),
            (_member("pipe", kind=tarfile.FIFOTYPE), b""),
        )
    )
    assert files == {"folder/file.json": b"{}"}
    assert [line.partition(":")[0] for line in left_out] == ["secret", "folder", "hard", "null", "pipe"]


def test_a_link_in_a_zip_is_left_out(unpacked: Callable[..., tuple[dict[str, bytes], tuple[str, ...]]]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("secret")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    files, left_out = unpacked(buffer.getvalue())
    assert (files, len(left_out)) == ({}, 1)


def test_a_name_that_is_a_file_and_a_folder_costs_itself_alone(
    unpacked: Callable[..., tuple[dict[str, bytes], tuple[str, ...]]],
) -> None:
    names = ("a", "a/b", "x" * 300, "c")
    files, left_out = unpacked(_tar(*((_member(name, b"1"), b"1") for name in names)))
    assert set(files) == {"a", "c"}
    assert [line[:3] for line in left_out] == ["a/b", "xxx"]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstandard.compress])
def test_a_bomb_is_refused_before_it_fills_the_disk(
    unpacked: Callable[..., object], tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    bomb = bytes(20 * 1024 * 1024)
    for content in (compress(bomb), compress(_tar((_member("bomb", bomb), bomb)))):
        with pytest.raises(ArchiveTooLargeError, match="more than 1 MiB"):
            unpacked(content)
        written = [path for path in (tmp_path / "deep").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in written) <= SMALL.archive_bytes
        for path in (*written, tmp_path / "deep" / "inside"):
            path.unlink() if path.is_file() else path.rmdir()
        (tmp_path / "deep").rmdir()


@pytest.mark.parametrize("pack", [_zip, lambda files: _tar(*((_member(n, c), c) for n, c in files.items()))])
def test_a_file_that_is_too_large_to_read_costs_itself_alone(
    unpacked: Callable[..., tuple[dict[str, bytes], tuple[str, ...]]], pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    limits = ImportLimits(archive_bytes=10 * 1024 * 1024, file_bytes=1024 * 1024)
    files, left_out = unpacked(pack({"huge.json": bytes(3_000_000), "a.json": b"{}"}), limits)
    assert files == {"a.json": b"{}"}
    assert left_out == ("huge.json: more than 1 MiB, the limit of one file",)


@pytest.mark.parametrize("stated", [20 * 1024 * 1024, 10])
def test_a_bomb_in_a_zip_is_refused_whatever_size_it_states(unpacked: Callable[..., object], stated: int) -> None:
    content = _zip({"bomb": bytes(20 * 1024 * 1024)})
    true_size = struct.pack("<I", 20 * 1024 * 1024)
    assert content.count(true_size) >= 2
    with pytest.raises(ArchiveError, match=r"more than 1 MiB|broken"):
        unpacked(content.replace(true_size, struct.pack("<I", stated)))


@pytest.mark.parametrize(
    "pack",
    [lambda n: _tar(*((_member(f"{i}"), b"") for i in range(n))), lambda n: _zip({f"{i}": b"" for i in range(n)})],
)
def test_more_members_than_the_limit_are_refused(unpacked: Callable[..., object], pack: Callable[[int], bytes]) -> None:
    with pytest.raises(ArchiveTooLargeError, match="more than 50 members and folders"):
        unpacked(pack(51))


def test_a_header_that_would_fill_the_memory_is_refused(unpacked: Callable[..., object]) -> None:
    """The size of a member's extended header is whatever the archive says; tarfile would read it at once."""
    header = _member("x", kind=tarfile.XHDTYPE)
    header.size = 2**33
    with pytest.raises(ArchiveTooLargeError, match="header"):
        unpacked(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(HONEST)
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    (tmp_path / "to" / "box").mkdir(parents=True)
    (tmp_path / "to" / "box" / "machine.json").symlink_to(full)
    with pytest.raises(NoRoomError, match="No space left"):
        unpack(archive, tmp_path / "to", SMALL)


def test_a_broken_zip_of_lzma_is_refused(unpacked: Callable[..., object]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.json", FILES["box/a b (c).json"])
    content = bytearray(buffer.getvalue())
    options = content.index(b"a.json") + len(b"a.json") + 4
    content[options] = 0xFF  # no options of LZMA
    with pytest.raises(ArchiveError, match="broken") as refused:
        unpacked(bytes(content))
    assert isinstance(refused.value.__cause__, lzma.LZMAError)


def test_broken_archives_are_refused(tmp_path: Path) -> None:
    """Truncated or with any bytes changed, an archive is unpacked in part or refused; nothing else is raised."""
    rng = random.Random(7)
    refused = 0
    archives = [HONEST, gzip.compress(HONEST), bz2.compress(HONEST), zstandard.compress(HONEST), _zip(FILES)]
    for number in range(200):
        content = bytearray(archives[number % len(archives)])
        if number % 2:
            del content[rng.randrange(20, len(content)) :]
        else:
            for _ in range(5):
                content[rng.randrange(len(content))] = rng.randrange(256)
        archive, folder = tmp_path / "broken", tmp_path / f"to{number}"
        archive.write_bytes(bytes(content))
        folder.mkdir()
        try:
            unpack(archive, folder, SMALL)
        except ArchiveError:
            refused += 1
    assert refused > 50
