"""The work of one call: floating-point operations, the least bytes that must move, and their bound."""

from dataclasses import dataclass

from .records import Ceilings

ELEMENT_BYTES = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "uint8": 1,
}
UNKNOWN_DTYPE = "unknown"  # of a benchmark that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The work of one call.

    Bytes count every input and every output once. FLOPs follow the operator's formula; a fused multiply-add is two.
    Both are 0 where the cost is not known: such a call has a latency and none of the rates that follow from its cost.
    """

    flops: int  # 0 for what only moves data: such a call has a bandwidth, but no throughput and no place on a roofline
    bytes: int


def bound_s(cost: Cost, dtype: str, ceilings: Ceilings) -> float | None:
    """Speed of light, the shortest latency that a machine allows, in seconds.

    The larger of bytes over bandwidth and FLOPs over the throughput of the dtype: Williams, Waterman and Patterson,
    "Roofline" (CACM 52:4, 2009). Overlap is taken for perfect, so a latency below it means that the byte count is wrong
    or that the data sat in the L2. None if the ceilings name no throughput of the dtype, or the cost is nothing.
    """
    throughput = ceilings.flops.get(dtype)
    if not throughput and cost.flops:
        return None
    compute_s = cost.flops / throughput if throughput else 0.0
    return max(cost.bytes / ceilings.bandwidth_bps, compute_s) or None
