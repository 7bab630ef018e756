"""Speed of light: the shortest latency that a machine allows. No torch here.

The larger of bytes over bandwidth and FLOPs over the throughput of the dtype: Williams, Waterman and Patterson,
"Roofline: an insightful visual performance model" (CACM 52:4, 2009). Overlap is taken for perfect, so a latency below
it means that the byte count is wrong or that the data sat in the L2.
"""

from .cost import Cost
from .records import Ceilings


def bound_s(cost: Cost, dtype: str, ceilings: Ceilings) -> float | None:
    """The bound in seconds; None if the ceilings name no throughput of the dtype, or the cost is nothing."""
    throughput = ceilings.flops.get(dtype)
    if not throughput and cost.flops:
        return None
    compute_s = cost.flops / throughput if throughput else 0.0
    return max(cost.bytes / ceilings.bandwidth_bps, compute_s) or None
