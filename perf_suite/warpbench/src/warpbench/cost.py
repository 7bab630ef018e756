"""The work of one call: floating-point operations, and the least bytes that must move. No torch here."""

from dataclasses import dataclass

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
