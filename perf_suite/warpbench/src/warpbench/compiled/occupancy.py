"""Theoretical occupancy: which share of an SM's warps a kernel's needs let be resident, by NVIDIA's own rules."""

from dataclasses import dataclass

from .architectures import ComputeCapability

_WARP = 32
_REGISTERS = 64 * 1024  # of an SM, and the most of a block
_MOST_REGISTERS_PER_THREAD = 255
_REGISTER_UNIT = 256  # a warp gets its registers in units of so many
_SUB_PARTITIONS = 4  # a quarter of the registers is for a quarter of the warps
_MOST_THREADS_PER_BLOCK = 1024
_KB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sm:
    """What a streaming multiprocessor of one compute capability holds."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int  # the most one block may ask for
    shared_unit: int  # a block gets its shared memory in units of so many bytes
    reserved_shared_bytes: int  # of each block, the system's own
    barriers: int | None = None  # named ones of all blocks; None: as many as all blocks can have


# CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability". The units in which the hardware
# allots, and the barriers, are from NVIDIA's own calculator, cuda_occupancy.h of CUDA 13.0, which the tests compile.
_SMS: dict[ComputeCapability, _Sm] = {
    (7, 5): _Sm(
        warps=32,
        blocks=16,
        shared_bytes=64 * _KB,
        shared_bytes_per_block=64 * _KB,
        shared_unit=256,
        reserved_shared_bytes=0,
    ),
    (8, 0): _Sm(
        warps=64,
        blocks=32,
        shared_bytes=164 * _KB,
        shared_bytes_per_block=163 * _KB,
        shared_unit=128,
        reserved_shared_bytes=_KB,
    ),
    (8, 6): _Sm(
        warps=48,
        blocks=16,
        shared_bytes=100 * _KB,
        shared_bytes_per_block=99 * _KB,
        shared_unit=128,
        reserved_shared_bytes=_KB,
    ),
    (8, 9): _Sm(
        warps=48,
        blocks=24,
        shared_bytes=100 * _KB,
        shared_bytes_per_block=99 * _KB,
        shared_unit=128,
        reserved_shared_bytes=_KB,
    ),
    (9, 0): _Sm(
        warps=64,
        blocks=32,
        shared_bytes=228 * _KB,
        shared_bytes_per_block=227 * _KB,
        shared_unit=128,
        reserved_shared_bytes=_KB,
        barriers=64,
    ),
    (10, 0): _Sm(
        warps=64,
        blocks=32,
        shared_bytes=228 * _KB,
        shared_bytes_per_block=227 * _KB,
        shared_unit=128,
        reserved_shared_bytes=_KB,
        barriers=64,
    ),
    (12, 0): _Sm(
        warps=48,
        blocks=24,
        shared_bytes=100 * _KB,
        shared_bytes_per_block=99 * _KB,
        shared_unit=128,
        reserved_shared_bytes=_KB,
        barriers=24,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How much of an SM a kernel can fill."""

    blocks: int  # resident at once; 0 where not even one fits
    share: float  # of the warps the SM can hold
    limited_by: str  # what another block would lack: "warps", "registers", "shared memory", "blocks" or "barriers"


def occupancy(
    gpu: ComputeCapability, *, threads: int, registers: int, shared_bytes: int, barriers: int
) -> Occupancy | None:
    """Of a kernel launched with blocks of `threads`, whose shared memory is static and dynamic together.

    None for a compute capability that is not in the table: limits are never guessed from a neighbour's.
    """
    sm = _SMS.get(gpu)
    if sm is None:
        return None
    warps = -(-threads // _WARP)
    limits = {  # where two are equal, the first is named: a full SM is not short of registers
        "warps": sm.warps // warps if threads <= _MOST_THREADS_PER_BLOCK else 0,
        "registers": _blocks_by_registers(warps, registers),
        "shared memory": _blocks_by_shared_memory(sm, shared_bytes),
        "blocks": sm.blocks,
        "barriers": sm.barriers // barriers if sm.barriers and barriers else sm.blocks,
    }
    limited_by = min(limits, key=lambda name: limits[name])
    blocks = limits[limited_by]
    return Occupancy(blocks=blocks, share=blocks * warps / sm.warps, limited_by=limited_by)


def _blocks_by_registers(warps: int, registers: int) -> int:
    per_warp = _rounded_up(registers * _WARP, _REGISTER_UNIT)
    # The hardware's check before a launch takes a block's warps to be spread over all sub-partitions.
    checked = per_warp * _rounded_up(warps, _SUB_PARTITIONS)
    if checked > _REGISTERS or registers > _MOST_REGISTERS_PER_THREAD:
        return 0
    return _REGISTERS // _SUB_PARTITIONS // per_warp * _SUB_PARTITIONS // warps


def _blocks_by_shared_memory(sm: _Sm, shared_bytes: int) -> int:
    if shared_bytes > sm.shared_bytes_per_block:
        return 0
    allotted = _rounded_up(shared_bytes + sm.reserved_shared_bytes, sm.shared_unit)
    return sm.shared_bytes // allotted if allotted else sm.blocks


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
