"""Build record, written as JSON next to the extension: compile time of each source, and a hash of its host code.

The GPU's machine code can be read from the extension later; these two cannot.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .ninja_file import TIMES

SCHEMA = 1


def build_record(root: Path, objects: Mapping[Path, Path]) -> str:
    """JSON of {"schema", "sources": {source below kernels/csrc: {"compile_s", "host_sha256"}}}.

    compile_s is the CPU time of the compilation that made the object, which does not depend on the machine's load.
    host_sha256 is a hash of the host code, which launches the kernels and chooses grids and tiles.
    """
    sources = {
        str(source.relative_to("kernels/csrc")): {
            "compile_s": _compile_s(root / target),
            "host_sha256": host_code_sha256(root / target),
        }
        for source, target in objects.items()
    }
    return json.dumps({"schema": SCHEMA, "sources": dict(sorted(sources.items()))}, indent=1) + "\n"


def _compile_s(target: Path) -> float | None:
    spent = re.findall(r"(\d+)m(\d+)[.,](\d+)s", target.with_name(target.name + TIMES).read_text())
    if len(spent) != 4:  # user and system time of the shell, then of its children
        return None
    return round(sum(60 * int(minutes) + float(f"{whole}.{part}") for minutes, whole, part in spent[2:]), 3)


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RELA = 4
_SECTION_SYMBOL = 3
# Code and constants; tables of functions, virtual ones included (.data.rel.ro); initialised variables; initialisers
# that run when the library is loaded. A table's targets are in its relocations.
_RUN = (b".text", b".rodata", b".data", b".tdata", b".init_array")
# nvcc names a file's anonymous namespace and its registration functions by hashes of the file's path.
_OF_THE_PATH = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}(?=_\d+_\w+_cu_)|(?<=_cu_)[0-9a-f]{8}(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class _Section:
    name: bytes
    kind: int
    data: bytes
    link: int
    info: int


def host_code_sha256(path: Path) -> str:
    """Hash of code, constants and data, with the names they refer to; without the GPU's machine code in the object.

    Two compilations of one source agree wherever the checkout is, and after a change of comments.
    Raises ValueError if the file is not a 64-bit little-endian ELF.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no 64-bit little-endian ELF object")
    sections = _sections(data)
    digest = hashlib.sha256()
    for section in sections:
        target = sections[section.info] if section.kind == _RELA else section
        if not target.name.startswith(_RUN):
            continue
        digest.update(_OF_THE_PATH.sub(b"", section.name) + b"\0")
        if section.kind == _RELA:
            for line in _relocations(section, sections):
                digest.update(line)
        else:
            digest.update(_OF_THE_PATH.sub(b"", section.data))
    return digest.hexdigest()


def _sections(data: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(data)
    start, count, names_at = header[6], header[12], header[13]
    if count == 0:  # more than 65279 sections: the first one holds the number
        count = _SECTION.unpack_from(data, start)[5]
    if names_at == 0xFFFF:
        names_at = _SECTION.unpack_from(data, start)[6]
    raw = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
    names = data[raw[names_at][4] :]
    return [
        _Section(_text(names, name), kind, data[offset : offset + size] if kind != 8 else b"", link, info)
        for name, kind, _, _, offset, size, link, info, _, _ in raw
    ]


def _relocations(section: _Section, sections: list[_Section]) -> Iterator[bytes]:
    symbols = sections[section.link]
    names = sections[symbols.link].data
    for offset, info, addend in _RELOCATION.iter_unpack(section.data):
        name_at, about, _, home, _, _ = _SYMBOL.unpack_from(symbols.data, (info >> 32) * _SYMBOL.size)
        name = sections[home].name if about & 0xF == _SECTION_SYMBOL else _text(names, name_at)
        yield b"%d %d %s %d\n" % (offset, info & 0xFFFFFFFF, _OF_THE_PATH.sub(b"", name), addend)


def _text(strings: bytes, at: int) -> bytes:
    return strings[at : strings.index(b"\0", at)]
