"""A parcel: some result files as one archive of equal bytes for equal content, small enough for one request."""

import io
import tarfile
from collections.abc import Iterable, Iterator

import zstandard

from warpwatch.ci.push.result_files import ReadResult

_MOST_BYTES = 64 * 2**20  # before compression; what a server with its default limits takes several times over
_MOST_FILES = 500
_LEVEL = 9  # JSON of results goes down to a tenth; higher levels take longer than they save
Member = tuple[str, bytes]


def groups(results: Iterable[ReadResult]) -> Iterator[list[ReadResult]]:
    """Results in their order, as many together as make a parcel. One larger than that is alone."""
    together: list[ReadResult] = []
    size = 0
    for result in results:
        if together and (size + result.size > _MOST_BYTES or len(together) == _MOST_FILES):
            yield together
            together, size = [], 0
        together.append(result)
        size += result.size
    if together:
        yield together


def pack(members: Iterable[Member]) -> bytes:
    """The archive. Its bytes depend on names and content alone, so that they tell whether it was packed before."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(members):
            about = tarfile.TarInfo(name)
            about.size = len(text)
            tar.addfile(about, io.BytesIO(text))
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(packed.getvalue())


def unpack(body: bytes) -> tuple[Member, ...]:
    """The members of a parcel of ours."""
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().decompress(body)), mode="r:") as tar:
        found = []
        for about in tar:
            file = tar.extractfile(about)
            assert file is not None
            found.append((about.name, file.read()))
        return tuple(found)


def halves(body: bytes) -> tuple[bytes, bytes] | None:
    """The parcel as two of half the results each, or None of one with a single result."""
    members = unpack(body)
    results = sorted(name for name, _ in members if _is_result(name))
    if len(results) < 2:
        return None
    middle = (len(results) + 1) // 2
    return _only(members, set(results[:middle])), _only(members, set(results[middle:]))


def results_in(body: bytes) -> int:
    """How many result files a parcel holds."""
    return sum(_is_result(name) for name, _ in unpack(body))


def _only(members: tuple[Member, ...], results: set[str]) -> bytes:
    stems = {name.removesuffix(".json") for name in results}
    machines = {name.rpartition("/")[0] for name in results}

    def stays(name: str) -> bool:
        if name.endswith(".context.jsonl"):
            return name.removesuffix(".context.jsonl") in stems
        folder, _, file = name.rpartition("/")
        return name in results or not folder or (file == "machine.json" and folder in machines)

    return pack(member for member in members if stays(member[0]))


def _is_result(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return bool(folder) and file.endswith(".json") and file != "machine.json"
