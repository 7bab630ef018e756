"""One cubin: what each of its kernels needs, and a hash of its machine code. Needs no GPU.

A cubin is an ELF file whose sections are called by kernel: `.text.<kernel>`, `.nv.shared.<kernel>`. What ptxas says of
a kernel beyond that is in the attributes of `.nv.info`; `cuobjdump -elf` prints them by the names used here.
"""

import hashlib
import io
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .mangled_names import signature

_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT = 0x11, 0x12, 0x2F  # EIATTR_*, in .nv.info, each with a kernel's symbol
_MAX_THREADS, _REQNTID, _NUM_BARRIERS = 0x05, 0x10, 0x4C  # EIATTR_*, in .nv.info.<kernel>
_EIFMT_SVAL = 4  # an attribute with a length of its own; all others are 2 bytes
_ABI_OF_CUDA_13 = 8  # until then barriers stand in a section's flags
_CONSTANT_BANKS = range(1, 6)  # bank 0 holds a launch's parameters
_RESERVED_SHARED_BYTES = 1024  # the system's own, which ptxas counts into static shared memory from Hopper on


@dataclass(frozen=True, slots=True, kw_only=True)
class CubinFunction:
    """One kernel of a cubin: a `__global__` function, or one instantiation of a template."""

    name: str  # mangled
    registers: int  # a thread
    stack_bytes: int  # a thread: spills, and arrays indexed at run time
    shared_bytes: int  # a block, static
    barriers: int  # a block, hardware's named ones
    most_threads: int | None  # a block, by __launch_bounds__; None where the source states none
    code: bytes = field(repr=False)
    sha256: str  # of the code with its scheduling, of the constants, and of the needs above


def read_cubin(data: bytes) -> tuple[CubinFunction, ...]:
    """The kernels of one cubin, in the order of the file.

    The hash does not depend on where the source lay, on line numbers, or on the text of printf and assert.
    Raises elftools' ELFError for what is no ELF file.
    """
    cubin = _Cubin(data)
    return tuple(cubin.function(name) for name in cubin.kernels())


class _Cubin:
    def __init__(self, data: bytes) -> None:
        from elftools.elf.elffile import ELFFile  # where it is not installed, all that needs no cubin works

        elf = ELFFile(io.BytesIO(data))
        self._sections: dict[str, Any] = {section.name: section for section in elf.iter_sections()}
        self._index = {section.name: index for index, section in enumerate(elf.iter_sections())}
        self._symbols = list(self._sections[".symtab"].iter_symbols())
        self._old_barriers = elf.header.e_ident.EI_ABIVERSION < _ABI_OF_CUDA_13
        self._reserves_shared = any(name.startswith(".nv.shared.reserved") for name in self._sections)
        self._of_kernels: dict[tuple[int, str], int] = {}
        for code, value in _attributes(self._data(".nv.info")):
            if code in (_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT):
                symbol, number = struct.unpack("<II", value)
                self._of_kernels[code, self._symbols[symbol].name] = number
        self._shared_by_kernels = self._constants("") + self._globals()

    def kernels(self) -> Iterator[str]:
        return (name.removeprefix(".text.") for name in self._sections if name.startswith(".text."))

    def function(self, name: str) -> CubinFunction:
        attributes = dict(_attributes(self._data(f".nv.info.{name}")))
        threads = attributes.get(_REQNTID) or attributes.get(_MAX_THREADS)
        needs = {
            "registers": self._of_kernels[_REGCOUNT, name],
            "stack_bytes": max(self._of_kernels.get((code, name), 0) for code in (_FRAME_SIZE, _MIN_STACK_SIZE)),
            "shared_bytes": self._static_shared_bytes(name),
            "barriers": self._barriers(name, attributes),
        }
        code = self._data(f".text.{name}")
        refers_to = self._relocations(f".text.{name}") + self._constants(f".{name}") + self._shared_by_kernels
        return CubinFunction(
            name=name,
            most_threads=math.prod(struct.unpack("<III", threads)) if threads else None,
            code=code,
            sha256=hashlib.sha256(repr(needs).encode() + code + refers_to).hexdigest(),
            **needs,
        )

    def _static_shared_bytes(self, name: str) -> int:
        section = self._sections.get(f".nv.shared.{name}")
        if section is None:
            return 0
        return int(section["sh_size"]) - (_RESERVED_SHARED_BYTES if self._reserves_shared else 0)

    def _barriers(self, name: str, attributes: dict[int, bytes]) -> int:
        if self._old_barriers:
            return int(self._sections[f".text.{name}"]["sh_flags"]) >> 20 & 0x7F
        return attributes[_NUM_BARRIERS][0] if _NUM_BARRIERS in attributes else 0

    def _constants(self, suffix: str) -> bytes:
        """The constant banks of a kernel, or with an empty suffix those of the whole source file."""
        names = (f".nv.constant{bank}{suffix}" for bank in _CONSTANT_BANKS)
        return b"".join(self._data(name) + self._relocations(name) for name in names)

    def _globals(self) -> bytes:
        """The initial values of variables in global memory."""
        index, data = self._index.get(".nv.global.init"), self._data(".nv.global.init")
        parts = []
        for symbol in self._symbols:
            if symbol["st_shndx"] == index and symbol["st_info"]["type"] == "STT_OBJECT" and not _is_text(symbol.name):
                start = symbol["st_value"]
                parts += [signature(symbol.name).encode(), data[start : start + symbol["st_size"]]]
        return b"\0".join(parts)

    def _relocations(self, name: str) -> bytes:
        """What the code or the constants of a section refer to, by name."""
        lines = []
        for section in filter(None, (self._sections.get(f".rel{name}"), self._sections.get(f".rela{name}"))):
            for entry in section.iter_relocations():
                symbol = self._symbols[entry["r_info_sym"]].name
                if not _is_text(symbol):
                    addend = entry["r_addend"] if entry.is_RELA() else 0
                    lines.append(f"{entry['r_offset']} {entry['r_info_type']} {signature(symbol)} {addend}")
        return "\n".join(lines).encode()

    def _data(self, name: str) -> bytes:
        section = self._sections.get(name)
        return bytes(section.data()) if section else b""


def _is_text(symbol: str) -> bool:
    return symbol.startswith("$str")  # what printf and assert say, file names among it


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """(code, value) of each attribute of a .nv.info section."""
    at = 0
    while at < len(info):
        form, code, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _EIFMT_SVAL:
            yield code, info[at : at + size]
            at += size
        else:
            yield code, info[at - 2 : at]
