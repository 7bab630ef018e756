"""What the recorded history holds in addition to latencies: the other metrics, canaries, host overhead, profiles."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

METRICS = {
    "warm_latency": "seconds",
    "cycles": "cycles",
    "bandwidth": "GB/s",
    "tflops": "TFLOP/s",
    "sol_peak": "share of peak",
    "sol_ceiling": "share of ceiling",
    "peak_memory": "bytes",
    "energy": "joules",
    "kernels_launched": "launches",
}
CONTROL, HOST = "benchmarks.control.Control", "benchmarks.host_overhead.HostOverhead"
CANARIES = {"cuda-fp32-triad-128mib": 98e-6, "cuda-fp16-matmul-m2048-n2048-k2048": 31e-6}
MORE_LAUNCHED_FROM = 20  # eager twins of ours launch one kernel more on the H200
_PEAK_BPS, _CEILING_BPS, _CLOCK_HZ = 4.8e12, 4.37e12, 1.98e9


def listed(operators: Mapping[str, tuple[str, Sequence[str], Sequence[str], Sequence[Any]]]) -> dict[str, Any]:
    """The entries of benchmarks.json."""
    entries = {
        f"benchmarks.{operator}.{suite}.track_{metric}": (unit, [case.name for case in cases], [*ours, *rivals])
        for operator, (suite, ours, rivals, cases) in operators.items()
        for metric, unit in METRICS.items()
    }
    entries[f"{CONTROL}.track_latency"] = ("seconds", list(CANARIES), ["canary"])
    entries[f"{HOST}.track_host_overhead"] = ("seconds", list(operators), ["warpwatch", "eager"])
    return {
        name: {
            "code": "",
            "name": name,
            "param_names": ["workload", "implementation"],
            "type": "track",
            "params": [list(map(repr, workloads)), list(map(repr, implementations))],
            "timeout": 60,
            "unit": unit,
            "version": "1",
        }
        for name, (unit, workloads, implementations) in entries.items()
    }


def metric_values(
    case: Any, latency_s: float | None, slowness: float, implementation: str, index: int
) -> dict[str, Any]:
    """What else was measured of one workload and implementation; None where the latency failed."""
    if latency_s is None:
        return dict.fromkeys(METRICS)
    on_h200 = slowness == 1.0
    missing = float("nan")
    bound = case.bytes / _PEAK_BPS, case.bytes / _CEILING_BPS
    launched = 1 if implementation == "warpwatch" else 2 if implementation != "eager" else 5
    if on_h200 and implementation == "triton" and index >= MORE_LAUNCHED_FROM:
        launched += 1
    return {
        "warm_latency": latency_s * 0.87,
        "cycles": round(latency_s * _CLOCK_HZ),
        "bandwidth": case.bytes / latency_s / 1e9,
        "tflops": case.flops / latency_s / 1e12,
        "sol_peak": bound[0] / latency_s / (1 if on_h200 else 1 / slowness),
        "sol_ceiling": bound[1] / latency_s if on_h200 else missing,
        "peak_memory": 0 if implementation == "warpwatch" else case.bytes // 2,
        "energy": latency_s * 420 if on_h200 and "decode" not in case.name else missing,
        "kernels_launched": launched,
    }


def canary_latency(name: str, slowness: float, index: int, rng: random.Random) -> float:
    """A canary's latency: it scatters, and no commit moves it."""
    return CANARIES[name] * slowness * (1 + rng.gauss(0, 0.0015))


def canary_records(run: str, latencies: Mapping[str, float], rng: random.Random) -> list[dict[str, Any]]:
    """The canaries' workloads and measurements, four visits each."""
    records: list[dict[str, Any]] = []
    for name, latency_s in latencies.items():
        visits = [
            {"at_s": 4.0 + 21.0 * visit, "latency_s": latency_s * (1 + rng.gauss(0, 0.001))} for visit in range(4)
        ]
        records += [
            {
                "record": "workload",
                "run": run,
                "benchmark": CONTROL,
                "operator": "control",
                "workload": name,
                "parameters": {},
                "dtype": "fp32",
                "flops": 1,
                "bytes": 400_000_000,
                "kernels": [],
                "baselines": [],
                "controls": ["canary"],
            },
            {
                "record": "measurement",
                "run": run,
                "benchmark": CONTROL,
                "workload": name,
                "implementation": "canary",
                "status": "ok",
                "reason": None,
                "latency_s": latency_s,
                "sample_count": 200,
                "cache": "cold",
                "seed": 1,
                "visits": visits,
            },
        ]
    return records


def profile_record(run: str, suite: str, operator: str, case: Any, implementation: str) -> dict[str, Any]:
    """What Nsight Compute saw: a fifth more bytes than the least, in one kernel or two."""
    kernel = {
        "name": f"{operator}_kernel",
        "signature": f"{operator}_kernel<__half, 128>",
        "duration_s": case.latency_s * 1.1,
        "dram_bytes": case.bytes * 1.2,
        "l2_bytes": case.bytes * 1.9,
        "l1_bytes": case.bytes * 3.1,
        "occupancy": 0.62,
        "tensor_pipe": None if operator == "rope" else 0.41,
        "stalls": {"long scoreboard": 6.2, "barrier": 1.4, "not selected": 0.7, "wait": 0.3},
        "counters": {},
    }
    return {
        "record": "profile",
        "run": run,
        "benchmark": suite,
        "operator": operator,
        "workload": case.name,
        "implementation": implementation,
        "profiler": "Nsight Compute 2025.3.1",
        "cache": "cold",
        "dram_bytes": kernel["dram_bytes"],
        "kernels": [kernel],
    }
