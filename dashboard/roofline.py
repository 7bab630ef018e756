"""The roofline: how fast a machine could do a workload at best, and how near a latency comes to that.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (CACM 52:4, 2009). Memory traffic
and arithmetic are assumed to overlap perfectly, so a latency below the bound means the bytes did not come from memory.
"""

from warpwatch.dashboard.store.machine_records import Ceilings, Limits
from warpwatch.dashboard.store.records import SpeedOfLight, Workload


def bound_s(workload: Workload, ceilings: Ceilings) -> float | None:
    """Shortest latency the ceilings allow: the larger of bytes / bandwidth and FLOPs / peak of the dtype.

    None if they name no peak for the dtype and the workload computes anything, or allow no bound at all.
    """
    peak = ceilings.flops.get(workload.dtype)
    if not peak and workload.flops:
        return None
    memory_s = workload.bytes / ceilings.bandwidth_bps if ceilings.bandwidth_bps else 0.0
    compute_s = workload.flops / peak if peak else 0.0
    return max(memory_s, compute_s) or None


def bound_by_memory(workload: Workload, limits: Limits) -> bool | None:
    """Whether memory bounds it rather than the math units; None where no peak of its dtype is known."""
    for ceilings in limits.known:
        peak = ceilings.flops.get(workload.dtype)
        if peak and ceilings.bandwidth_bps:
            return workload.bytes / ceilings.bandwidth_bps >= workload.flops / peak
    return None


def speed_of_light(workload: Workload, limits: Limits, latency_s: float) -> SpeedOfLight | None:
    """Both bounds as shares of the latency: 1 is as fast as the machine can. None if there is neither."""
    found = SpeedOfLight(
        of_peak=_share(workload, limits.peaks, latency_s), of_ceiling=_share(workload, limits.measured, latency_s)
    )
    return found if found.share is not None else None


def _share(workload: Workload, ceilings: Ceilings | None, latency_s: float) -> float | None:
    bound = bound_s(workload, ceilings) if ceilings else None
    return bound / latency_s if bound and latency_s > 0 else None
