"""How many instructions of which kind functions have."""

import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cuda_binaries import Tools, disassemble

INSTRUCTION_BYTES = 16  # sm_70 and later

# Of an instruction's two words of 64 bits, those that choose the opcode and its modifiers (the width of a load). The
# others are registers, immediates and scheduling. nvdisasm takes 25 us an instruction: a library has millions, of some
# thousand kinds.
_OPCODE = 0xFFF  # of the first word
_MODIFIERS = 0x1FFFFFFFF00  # of the second
# "        /*0090*/              @!P0 LDG.E.128 R4, [R2.64] ;": the opcode with its modifiers
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)
_WIDTH = re.compile(r"\.[US]?(8|16|64|128|256)(?=\.|$)")
_LOCAL_MEMORY = frozenset({"LDL", "STL"})
_SHARED_MEMORY = frozenset({"LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS", "SYNCS", "UBLKCP", "UTMALDG", "UTMASTG"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Of one function, each counted once however often it runs; what pads the code behind its end is left out."""

    by_name: Mapping[str, int]  # by mnemonic, global loads by width too: "LDG.128" loads 128 bits
    local_memory_bytes: int  # that LDL and STL move: what ptxas calls spill loads and stores, and arrays

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_name.values())

    @property
    def local_memory(self) -> int:
        """Loads and stores of local memory."""
        return sum(self.by_name.get(name, 0) for name in _LOCAL_MEMORY)

    @property
    def use_shared_memory(self) -> bool:
        """Whether any of them reads or writes shared memory."""
        return any(name in _SHARED_MEMORY for name in self.by_name)


def count_instructions(codes: Mapping[bytes, str], tools: Tools) -> Mapping[bytes, Instructions]:
    """Of each function's machine code, given with an architecture that runs it.

    Raises CalledProcessError for what is no machine code.
    """
    kinds = {code: _kinds(code) for code in codes}
    counted: dict[bytes, Instructions] = {}
    for architecture in set(codes.values()):
        here = [code for code, its in codes.items() if its == architecture]
        opcodes = _opcodes(architecture, {code: kinds[code] for code in here}, tools)
        counted |= {code: _sorted_out([opcodes[kind] for kind in kinds[code]]) for code in here}
    return counted


def _kinds(code: bytes) -> list[int]:
    """Of each instruction, a number for its opcode and modifiers."""
    return [(high & _MODIFIERS) << 4 | low & _OPCODE for low, high in struct.iter_unpack("<QQ", code)]


def _opcodes(architecture: str, kinds: Mapping[bytes, Sequence[int]], tools: Tools) -> dict[int, str]:
    """How nvdisasm writes the opcode of each kind, of which it gets one instruction."""
    instructions: dict[int, bytes] = {}
    for code, its in kinds.items():
        for kind in set(its) - instructions.keys():
            at = INSTRUCTION_BYTES * its.index(kind)
            instructions[kind] = code[at : at + INSTRUCTION_BYTES]
    found = _INSTRUCTION.findall(disassemble(b"".join(instructions.values()), architecture, tools))
    if len(found) != len(instructions):
        raise ValueError(f"nvdisasm reports {len(found)} instructions of {len(instructions)} for {architecture}")
    return dict(zip(instructions, found, strict=True))


def _sorted_out(opcodes: list[str]) -> Instructions:
    while opcodes and opcodes[-1] == "NOP":
        opcodes.pop()
    by_name: Counter[str] = Counter()
    local_memory_bytes = 0
    for opcode, count in Counter(opcodes).items():
        mnemonic = opcode.partition(".")[0]
        if mnemonic in _LOCAL_MEMORY:
            local_memory_bytes += count * _bits(opcode) // 8
        by_name[f"LDG.{_bits(opcode)}" if mnemonic == "LDG" else mnemonic] += count
    return Instructions(by_name=dict(sorted(by_name.items())), local_memory_bytes=local_memory_bytes)


def _bits(opcode: str) -> int:
    found = _WIDTH.search(opcode)
    return int(found.group(1)) if found else 32
