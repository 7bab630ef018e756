"""A small asv results folder with a history worth looking at, in the file formats that asv and the suite write.

Two machines, three operators with their rivals, two dozen commits of a real git repository: one commit slows
decode attention on the T4 by 4 %, one speeds rope up, one run was throttled, one kernel failed, one was not measured
because its code stood still, and the H200 is another card from some commit on.
"""

import itertools
import json
import math
import random
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.dashboard.pages import recorded_more as more

COMMITS = 24
ENVIRONMENT = "virtualenv-py3.11"
SLOWER_FROM = 17  # decode attention on the T4
FASTER_FROM = 9  # rope everywhere
THROTTLED = 21  # all of int4_linear's own on the H200
CARD_FROM = 14  # another H200, half a per cent slower
UNCHANGED_FROM = 23  # our rope on the T4 is not measured
_COLUMNS = [
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "number",
    "repeat",
    "samples",
    "profile",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload: its work and the time our kernel takes on an H200."""

    name: str
    dtype: str
    flops: int
    bytes: int
    latency_s: float


OPERATORS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[Case, ...]]] = {
    "rope": (
        "Rope",
        ("warpwatch", "triton"),
        ("eager", "torch_compile"),
        (
            Case(name="cuda-fp16-b8-h32-s2048-d128", dtype="fp16", flops=402653184, bytes=268435456, latency_s=68e-6),
            Case(name="cuda-fp16-b1-h32-s512-d64", dtype="fp16", flops=3145728, bytes=4194304, latency_s=4.4e-6),
        ),
    ),
    "flash_attention": (
        "FlashAttention",
        ("warpwatch", "triton"),
        ("sdpa", "eager"),
        (
            Case(
                name="cuda-fp16-b16-h32-s512-d64-full",
                dtype="fp16",
                flops=34359738368,
                bytes=134217728,
                latency_s=112e-6,
            ),
            Case(
                name="cuda-fp16-b1-h32-s2048-d128-causal",
                dtype="fp16",
                flops=34359738368,
                bytes=67108864,
                latency_s=131e-6,
            ),
            Case(
                name="cuda-fp16-b8-h32-kv8-s1-4096-d128-decode",
                dtype="fp16",
                flops=536870912,
                bytes=134348800,
                latency_s=41e-6,
            ),
        ),
    ),
    "int4_linear": (
        "Int4Linear",
        ("warpwatch", "triton"),
        ("cublas",),
        (
            Case(name="cuda-fp16-m1-n4096-k4096-g128", dtype="fp16", flops=33554432, bytes=8667136, latency_s=5.2e-6),
            Case(
                name="cuda-fp16-m16-n14336-k4096-g128",
                dtype="fp16",
                flops=1879048192,
                bytes=30932992,
                latency_s=14.1e-6,
            ),
        ),
    ),
}
_SPEED = {"warpwatch": 1.0, "triton": 1.12, "sdpa": 1.31, "cublas": 2.4, "eager": 7.5, "torch_compile": 1.04}
_MACHINES: Mapping[str, dict[str, Any]] = {
    "nvidia-h200": {
        "slowness": 1.0,
        "noise": 0.002,
        "gpu": {
            "name": "NVIDIA H200",
            "uuid": "GPU-5f1c",
            "compute_capability": "9.0",
            "driver": "580.65.06",
            "power_limit_w": 700.0,
            "sm_count": 132,
            "l2_bytes": 62914560,
            "memory_bytes": 150754820096,
            "ecc": True,
            "mig": False,
            "other_processes": 0,
        },
        "ceilings": {
            "name": "NVIDIA H200",
            "source": "datasheet",
            "bandwidth_bps": 4.8e12,
            "flops": {"fp32": 6.7e13, "fp16": 9.89e14, "bf16": 9.89e14, "int8": 1.979e15},
        },
        "measured_ceilings": {
            "name": "NVIDIA H200",
            "source": "measured",
            "bandwidth_bps": 4.37e12,
            "flops": {"fp32": 5.1e13, "fp16": 6.7e14, "bf16": 6.7e14, "int8": 8.99e14},
            "l2_bandwidth_bps": 1.1e13,
            "measured_at": "2026-11-20T08:00:00+00:00",
        },
    },
    "runner-t4": {
        "slowness": 13.7,
        "noise": 0.006,
        "gpu": {
            "name": "Tesla T4",
            "uuid": "GPU-77aa",
            "compute_capability": "7.5",
            "driver": "550.54.15",
            "power_limit_w": 70.0,
            "sm_count": 40,
            "l2_bytes": 4194304,
            "memory_bytes": 15843721216,
            "ecc": True,
            "mig": False,
            "other_processes": 0,
        },
        "ceilings": {
            "name": "Tesla T4",
            "source": "datasheet",
            "bandwidth_bps": 3.2e11,
            "flops": {"fp32": 8.1e12, "fp16": 6.5e13, "int8": 1.3e14},
        },
    },
}
_SUBJECTS = (
    "kernels: rope keeps twice the loads in flight",
    "perf_suite: inputs are rotated between samples",
    "kernels: decode splits the keys over more blocks",
    "docs: how to add a workload",
    "kernels: int4_linear dequantises in registers",
    "ci: the runner checks its clocks before a run",
)


def write_recorded(folder: Path, *, commits: int = COMMITS) -> tuple[Path, Path]:
    """Writes a repository and a results folder; returns both. The same bytes every time but for commits' hashes."""
    newest = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    dates = [newest - timedelta(days=2 * (commits - 1 - index)) for index in range(commits)]
    subjects = list(itertools.islice(itertools.cycle(_SUBJECTS), commits))
    repository = folder / "repository"
    hashes = write_repository(repository, subjects, dates)
    results = folder / "results"
    results.mkdir()
    (results / "benchmarks.json").write_text(json.dumps(_benchmarks()))
    for machine, about in _MACHINES.items():
        (results / machine).mkdir()
        details = {
            "machine": machine,
            "os": "Linux 6.8",
            "arch": "x86_64",
            "cpu": "EPYC 9555",
            "num_cpu": "16",
            "ram": "128 GiB",
            "gpu": about["gpu"]["name"],
            "version": 1,
        }
        (results / machine / "machine.json").write_text(json.dumps(details))
        for index, (commit, date) in enumerate(zip(hashes, dates, strict=True)):
            _write_run(results / machine, machine, about, index, commit, date, previous=hashes[index - 1])
    return repository, results


def write_repository(path: Path, subjects: Sequence[str], dates: Sequence[datetime]) -> list[str]:
    """A git repository with one empty commit a subject; returns the hashes, oldest first."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    stream = []
    for subject, date in zip(subjects, dates, strict=True):
        when = f"{int(date.timestamp())} +0000"
        message = subject.encode()
        stream.append(
            b"commit refs/heads/main\nauthor Ada Byron <ada@example.org> "
            + when.encode()
            + b"\ncommitter Ada Byron <ada@example.org> "
            + when.encode()
            + b"\ndata "
            + str(len(message)).encode()
            + b"\n"
            + message
            + b"\n"
        )
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=b"".join(stream), check=True)
    listed = subprocess.run(
        ["git", "-C", str(path), "rev-list", "--reverse", "main"], check=True, capture_output=True, text=True
    )
    return listed.stdout.split()


def _benchmarks() -> dict[str, Any]:
    listed: dict[str, Any] = {"version": 2}
    for operator, (suite, ours, rivals, cases) in OPERATORS.items():
        name = f"benchmarks.{operator}.{suite}.track_latency"
        listed[name] = {
            "code": "",
            "name": name,
            "param_names": ["workload", "implementation"],
            "type": "track",
            "params": [[repr(case.name) for case in cases], [repr(each) for each in (*ours, *rivals)]],
            "timeout": 60,
            "unit": "seconds",
            "version": "1",
        }
    return listed | more.listed(OPERATORS)


def _write_run(
    folder: Path, machine: str, about: Mapping[str, Any], index: int, commit: str, date: datetime, *, previous: str
) -> None:
    random_of_run = random.Random(f"{machine} {index}")
    started = date + timedelta(minutes=20)
    run = uuid.UUID(int=random.Random(f"{machine} {commit}").getrandbits(128)).hex
    context: list[dict[str, Any]] = [_run_record(run, about, commit, started, index)]
    results: dict[str, list[Any]] = {}
    for operator, (suite, ours, rivals, cases) in OPERATORS.items():
        name = f"benchmarks.{operator}.{suite}"
        implementations = (*ours, *rivals)
        numbers: list[float | None] = []
        spread: list[tuple[float, float] | None] = []
        samples: list[list[float] | None] = []
        others: dict[str, list[Any]] = {metric: [] for metric in more.METRICS}
        for case in cases:
            context.append(
                {
                    "record": "workload",
                    "run": run,
                    "benchmark": name,
                    "operator": operator,
                    "workload": case.name,
                    "parameters": {"dtype": case.dtype},
                    "dtype": case.dtype,
                    "flops": case.flops,
                    "bytes": case.bytes,
                    "kernels": list(ours),
                    "baselines": list(rivals),
                }
            )
            for implementation in implementations:
                status, reason = _status(machine, operator, implementation, index, previous)
                level = (
                    case.latency_s
                    * about["slowness"]
                    * _SPEED[implementation]
                    * _shift(machine, operator, case, implementation, index)
                )
                level *= (1 + random_of_run.gauss(0, about["noise"])) * _of_card(machine, index)
                taken = sorted(level * (1 + abs(random_of_run.gauss(0, 0.006))) for _ in range(20))
                number = taken[10] if status == "ok" else None
                # asv's own words: null is failed, NaN is not available.
                absent = status in {"unavailable", "unchanged"}
                numbers.append(math.nan if absent else number)
                also = more.metric_values(case, number, about["slowness"], implementation, index)
                for metric, value in also.items():
                    others[metric].append(math.nan if absent else value)
                spread.append((taken[5], taken[15]) if number else None)
                samples.append(taken if number else None)
                context.append(
                    {
                        "record": "measurement",
                        "run": run,
                        "benchmark": name,
                        "workload": case.name,
                        "implementation": implementation,
                        "status": status,
                        "reason": reason,
                        "latency_s": number,
                        "sample_count": 20 if number else 0,
                        "sm_clock_hz": [1.98e9, 1.965e9, 1.98e9],
                        "temperature_c": 51.0,
                        "clock_event_reasons": {"before": 0, "after": 0},
                        "cache": "cold",
                        "seed": 1234,
                        "backend": "cudnn" if implementation == "sdpa" else None,
                        "relative_error": 4.1e-4,
                        "tolerance": 2e-3,
                        **_conditions(case, number, index),
                    }
                )
        params = [[repr(case.name) for case in cases], [repr(each) for each in implementations]]
        for metric, values in others.items():
            results[f"{name}.track_{metric}"] = [values, params, "1", int(started.timestamp() * 1000), 0.1]
        if machine == "nvidia-h200" and index == SLOWER_FROM:
            context.append(more.profile_record(run, name, operator, cases[0], "warpwatch"))
        results[f"{name}.track_latency"] = [
            numbers,
            params,
            "1",
            int(started.timestamp() * 1000),
            1.2,
            [s and s[0] for s in spread],
            [s and s[1] for s in spread],
            [s and s[0] for s in spread],
            [s and s[1] for s in spread],
            [1 if s else None for s in spread],
            [20 if s else None for s in spread],
            samples,
        ]
        context += _compiled(run, operator, index)
    canaries = {
        canary: more.canary_latency(canary, about["slowness"], index, random_of_run) * _of_card(machine, index)
        for canary in more.CANARIES
    }
    context += more.canary_records(run, canaries, random_of_run)
    at = int(started.timestamp() * 1000)
    results[f"{more.CONTROL}.track_latency"] = [
        list(canaries.values()),
        [list(map(repr, canaries)), [repr("canary")]],
        "1",
        at,
        90.0,
    ]
    overheads = [5e-6 * (1 + random_of_run.gauss(0, 0.01)) * (1 + 0.6 * (n % 2)) for n in range(2 * len(OPERATORS))]
    names = [[repr(operator) for operator in OPERATORS], [repr("warpwatch"), repr("eager")]]
    results[f"{more.HOST}.track_host_overhead"] = [overheads, names, "1", at, 3.0]
    file = folder / f"{commit[:8]}-{ENVIRONMENT}.json"
    file.write_text(
        json.dumps(
            {
                "commit_hash": commit,
                "env_name": ENVIRONMENT,
                "date": int(date.timestamp() * 1000),
                "params": {"machine": machine, "python": "3.11"},
                "python": "3.11",
                "requirements": {},
                "env_vars": {},
                "result_columns": _COLUMNS,
                "results": results,
                "durations": {},
                "version": 2,
            }
        )
    )
    file.with_name(f"{file.stem}.context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in context))


def _run_record(run: str, about: Mapping[str, Any], commit: str, started: datetime, index: int) -> dict[str, Any]:
    gpu = dict(about["gpu"])
    if gpu["name"] == "NVIDIA H200" and index >= CARD_FROM:
        gpu["uuid"] = "GPU-c0ffee42"
    return {
        "record": "run",
        "schema": 1,
        "run": run,
        "commit": commit,
        "environment": ENVIRONMENT,
        "started_at": started.isoformat(),
        "device": "cuda",
        "gpu": gpu,
        "cpu": {"model": "AMD EPYC 9555", "cores": 16},
        "software": {
            "python": "3.11.9",
            "torch": "2.13.0",
            "cuda": "13.0",
            "cudnn": "9.19",
            "triton": "3.6.0",
            "nvbench": "0.3.0",
        },
        "ceilings": about["ceilings"],
        "measured_ceilings": about.get("measured_ceilings"),
    }


def _of_card(machine: str, index: int) -> float:
    return 1.006 if machine == "nvidia-h200" and index >= CARD_FROM else 1.0


def _conditions(case: Case, number: float | None, index: int) -> dict[str, Any]:
    """The context of a latency, and its other metrics."""
    if number is None:
        return {}
    return {
        "at_s": 31.5,
        "throttled_s": {"power cap": 0.0004},
        "contenders": 0,
        "timer": "nvbench 0.3.0",
        "code_sha256": f"{index // 6:064x}",
        "warm_latency_s": number * 0.87,
        "sm_cycles": number * 1.98e9,
        "peak_memory_bytes": 0,
        "kernels_launched": 2,
        "launched": {"kernel": 1, "memset": 1},
        "energy": {
            "per_call_j": [number * 420, number * 421],
            "window_s": 0.52,
            "power_w": 420.0,
            "method": "NVML total energy, gross",
        },
    }


def _status(machine: str, operator: str, implementation: str, index: int, previous: str) -> tuple[str, str | None]:
    if (machine, operator, implementation) == ("runner-t4", "rope", "warpwatch") and index >= UNCHANGED_FROM:
        return "unchanged", f"code unchanged since {previous[:8]}"
    if (machine, operator, implementation, index) == ("nvidia-h200", "int4_linear", "warpwatch", THROTTLED):
        return "invalid", "throttled: the SM clock fell to 1.2 GHz during 14 of 20 samples"
    if (machine, operator, implementation) == ("runner-t4", "rope", "triton"):
        return "unavailable", "Triton is not installed"
    if (machine, operator, implementation) == ("runner-t4", "int4_linear", "triton"):
        return "failed", "CompilationError: shared memory, 98304 bytes wanted, 65536 there"
    return "ok", None


def _shift(machine: str, operator: str, case: Case, implementation: str, index: int) -> float:
    if implementation != "warpwatch":
        return 1.0
    if operator == "rope":
        return 1.0 if index >= FASTER_FROM else 1.11
    slower = machine == "runner-t4" and case.name.endswith("decode") and index >= SLOWER_FROM
    return 1.041 if slower else 1.0


def _compiled(run: str, operator: str, index: int) -> list[dict[str, Any]]:
    registers = 128 if operator == "flash_attention" and index >= SLOWER_FROM else 96
    return [
        {
            "record": "compiled",
            "run": run,
            "benchmark": "benchmarks.compiled_code.CompiledCode",
            "operator": operator,
            "kernel": f"{operator}_kernel<128, 64, __half>",
            "architecture": architecture,
            "registers": registers,
            "stack_bytes": 0,
            "shared_bytes": 49152,
            "local_memory_instructions": 0,
            "code_bytes": 18432,
            "instructions": {"total": 2304, "HMMA": 256},
            "sha256": f"{index:064x}",
            "implementation": "warpwatch",
            "barriers": 2,
            "occupancy": 0.5 if registers == 96 else 0.375,
            "occupancy_limit": "registers",
            "dynamic_shared_bytes": 65536,
        }
        for architecture in ("sm_75", "sm_90a")
    ]
