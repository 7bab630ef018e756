"""Writes results of a suite of kernels on GPUs: asv's files and their context files, with controls and GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.asv_results import AsvResults

SUITE, CONTROL = "benchmarks.rope.Rope", "benchmarks.control.Control"
START_MS = 1_767_225_600_000
TRIAD, MATMUL = "cuda-fp32-triad-1m", "cuda-fp16-matmul-8192"


@dataclass
class Suite:
    """A history of one operator's workloads, a rival, and two canaries, a commit at a time.

    Latencies are `levels` (seconds) times what a commit says; a status other than "ok" has no number.
    """

    asv: AsvResults
    workloads: tuple[str, ...] = ("w1",)
    levels: Mapping[str, float] = field(
        default_factory=lambda: {"warpwatch": 1e-4, "eager": 2e-4, TRIAD: 1e-4, MATMUL: 2e-4}
    )
    scatter: float = 0.001  # of a commit against the next; none is random

    def commit(
        self,
        number: int,
        moved: Mapping[str, float] | None = None,
        *,
        card: str = "GPU-aaaaaaaa-1",
        code: str | None = None,
        status: str = "ok",
        reason: str | None = None,
        failure: str | None = None,
        visits: tuple[float, ...] = (),
        more: Mapping[str, Any] | None = None,
        hour: int = 0,
        asked_for_canaries: bool = True,
    ) -> Any:
        """One run at one commit: what moved against the level, by implementation or canary; returns the file."""
        factors = {name: 1 + self.scatter * ((number * step) % 3 - 1) for step, name in enumerate(self.levels, 1)}
        factors = {name: factor * (moved or {}).get(name, 1.0) for name, factor in factors.items()}
        values = {name: level * factors[name] for name, level in self.levels.items()}
        run = f"run-{number}-{hour}"
        started_s = number * 3600 + hour * 60
        ours = ["'warpwatch'", "'eager'"]
        names = [repr(workload) for workload in self.workloads]
        canaries = [repr(TRIAD), repr(MATMUL)]
        self.asv.benchmark(f"{SUITE}.track_latency", workload=names, implementation=ours)
        self.asv.benchmark(f"{CONTROL}.track_latency", workload=canaries, implementation=["'canary'"])
        asv_started = START_MS + started_s * 1000 + 30_000
        own = values["warpwatch"] if status == "ok" else float("nan") if status == "unchanged" else None
        rows = {
            f"{SUITE}.track_latency": self.asv.row(
                [own, values["eager"]] * len(names), [names, ours], started_at=asv_started, spread=0.001
            ),
            f"{CONTROL}.track_latency": self.asv.row(
                [values[TRIAD], values[MATMUL]], [canaries, ["'canary'"]], started_at=asv_started, spread=0.001
            ),
        }
        if not asked_for_canaries:  # as `asv run --bench rope` does: they are measured, and asv has no value of them
            del rows[f"{CONTROL}.track_latency"]
        path = self.asv.commit(number, rows)
        records: list[dict[str, Any]] = [
            {
                "record": "run",
                "schema": 1,
                "run": run,
                "commit": "c" * 40,
                "environment": "env-py3.11",
                "started_at": (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=started_s)).isoformat(),
                "device": "cuda",
                "gpu": {"name": "NVIDIA H200", "uuid": card},
                "cpu": {"model": "Xeon", "cores": 16},
                "software": {},
                "ceilings": None,
                **(more or {}),
            }
        ]
        for workload in self.workloads:
            records.append(_workload(run, SUITE, workload, kernels=["warpwatch"], baselines=["eager"]))
            records.append(
                _measured(
                    run,
                    SUITE,
                    workload,
                    "warpwatch",
                    values["warpwatch"],
                    status,
                    reason,
                    failure=failure,
                    code_sha256=code,
                )
            )
            records.append(_measured(run, SUITE, workload, "eager", values["eager"]))
        for name in (TRIAD, MATMUL):
            records.append(_workload(run, CONTROL, name, controls=["canary"]))
            taken = [{"at_s": 10.0 * n, "latency_s": values[name] * each} for n, each in enumerate(visits)]
            records.append(_measured(run, CONTROL, name, "canary", values[name], visits=taken))
        self.asv.context(path, *records)
        return path


def _workload(run: str, suite: str, name: str, **roles: list[str]) -> dict[str, Any]:
    return {
        "record": "workload",
        "run": run,
        "benchmark": suite,
        "operator": suite.split(".")[1],
        "workload": name,
        "parameters": {},
        "dtype": "fp16",
        "flops": 1_000_000,
        "bytes": 4_000_000,
        "kernels": [],
        "baselines": [],
        "controls": [],
        **roles,
    }


def _measured(
    run: str,
    suite: str,
    workload: str,
    implementation: str,
    latency_s: float,
    status: str = "ok",
    reason: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "record": "measurement",
        "run": run,
        "benchmark": suite,
        "workload": workload,
        "implementation": implementation,
        "status": status,
        "reason": reason,
        "latency_s": latency_s if status == "ok" else None,
        "sample_count": 10 if status == "ok" else 0,
        **more,
    }
