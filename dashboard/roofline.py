"""The roofline: how fast a machine could do a workload at best, and how near a latency comes to that.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (CACM 52:4, 2009). Memory traffic
and arithmetic are assumed to overlap perfectly, so a latency below the bound means the bytes did not come from memory.
"""

from warpwatch.dashboard.store.records import Ceilings, Workload


def bound_s(workload: Workload, ceilings: Ceilings) -> float | None:
    """Shortest latency the machine allows: the larger of bytes / bandwidth and FLOPs / peak of the dtype.

    None if the machine names no peak for the dtype and the workload computes anything, or allows no bound at all.
    """
    peak = ceilings.flops.get(workload.dtype)
    if not peak and workload.flops:
        return None
    memory_s = workload.bytes / ceilings.bandwidth_bps if ceilings.bandwidth_bps else 0.0
    compute_s = workload.flops / peak if peak else 0.0
    return max(memory_s, compute_s) or None


def speed_of_light(workload: Workload, ceilings: Ceilings, latency_s: float) -> float | None:
    """The bound as a share of the latency: 1 is as fast as the machine can."""
    bound = bound_s(workload, ceilings)
    return bound / latency_s if bound and latency_s > 0 else None
