"""How many instructions of which kind functions have."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from .cuda_binaries import Tools, disassemble

INSTRUCTION_BYTES = 16  # sm_70 and later

_BATCH_BYTES = 2 * 1024 * 1024  # two seconds of nvdisasm's, whose start takes half a second
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
    """Of each function's machine code, given with an architecture that runs it, on all cores.

    Raises CalledProcessError for what is no machine code.
    """
    counted: dict[bytes, Instructions] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # the threads wait for nvdisasm
        for done in pool.map(lambda batch: _counted(batch[0], batch[1], tools), _batches(codes)):
            counted.update(done)
    return counted


def _batches(codes: Mapping[bytes, str]) -> Iterator[tuple[str, Sequence[bytes]]]:
    for architecture in dict.fromkeys(codes.values()):
        batch: list[bytes] = []
        for code in (code for code, its in codes.items() if its == architecture):
            batch.append(code)
            if sum(map(len, batch)) >= _BATCH_BYTES:
                yield architecture, batch
                batch = []
        if batch:
            yield architecture, batch


def _counted(architecture: str, codes: Sequence[bytes], tools: Tools) -> dict[bytes, Instructions]:
    found = _INSTRUCTION.findall(disassemble(b"".join(codes), architecture, tools))
    wanted = sum(map(len, codes)) // INSTRUCTION_BYTES
    if len(found) != wanted:
        raise ValueError(f"nvdisasm tells of {len(found)} instructions in code of {wanted} for {architecture}")
    opcodes = iter(found)
    return {code: _sorted_out(list(islice(opcodes, len(code) // INSTRUCTION_BYTES))) for code in codes}


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
