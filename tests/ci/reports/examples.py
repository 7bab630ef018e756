"""Artefacts as a gate writes them, for what reads them."""

from typing import Any

from warpwatch.ci.gate.artefact import (
    ArtefactCanary,
    ArtefactCommit,
    ArtefactDrift,
    ArtefactEstimate,
    ArtefactRow,
    ArtefactSeries,
    CodeDifference,
    CodeFact,
    Cost,
    GateArtefact,
)
from warpwatch.ci.gate.gate_loop import StopReason
from warpwatch.dashboard.model.comparison import outcome_of
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import NoiseSource, Verdict

BASE, HEAD = "a" * 40, "b" * 40
_CHANGES = {Verdict.REGRESSED: 0.041, Verdict.IMPROVED: -0.12, Verdict.UNCHANGED: 0.001, Verdict.INCONCLUSIVE: 0.03}


def row(number: int, verdict: Verdict, **other: Any) -> ArtefactRow:
    """A latency; REGRESSED is 4.1 % (3.8 to 4.4), MISSING is gone at head. `other`: fields of the row or its series."""
    change = _CHANGES.get(verdict)
    estimate = None
    if change is not None:
        estimate = ArtefactEstimate(
            change=change,
            ci_low=change - 0.003,
            ci_high=change + 0.003,
            p_value=1e-9,
            noise=0.002,
            noise_source=NoiseSource.RERUNS,
            base_runs=4,
            head_runs=4,
            runs_needed=3 if verdict is Verdict.INCONCLUSIVE else 0,
        )
    named = {name: other.pop(name) for name in list(other) if name in ArtefactSeries.model_fields}
    stated: dict[str, Any] = {
        "series": series(f"{number:016x}", number, **named),
        "kernel": "rope",
        "dtype": "fp16",
        "verdict": verdict,
        "fails": verdict is Verdict.INVALID or (verdict is Verdict.MISSING and other.get("base", 1) is not None),
        "base": 70.8e-6,
        "head": None if change is None else 70.8e-6 * (1 + change),
        "estimate": estimate,
        "control_change": 0.001,
        "min_relative_change": 0.02,
        "reason": "wrong: error 0.3, tolerance 0.01" if verdict is Verdict.INVALID else None,
    }
    return ArtefactRow(**(stated | other))


def series(key: str, number: int = 1, **other: Any) -> ArtefactSeries:
    """A latency on runner-1."""
    stated: dict[str, Any] = {
        "key": key,
        "benchmark": "benchmarks.rope.Rope.track_latency",
        "parameters": {"workload": f"cuda-fp16-b{number}", "implementation": "warpwatch"},
        "workload": f"cuda-fp16-b{number}",
        "implementation": "warpwatch",
        "metric": "latency",
        "unit": "seconds",
        "better": Better.LOWER,
        "machine": "runner-1",
    }
    return ArtefactSeries(**(stated | other))


def artefact(*rows: ArtefactRow, **other: Any) -> GateArtefact:
    """Of those rows, on a T4."""
    stated: dict[str, Any] = {
        "project": "kernels",
        "base": ArtefactCommit(hash=BASE, subject="rope: tiles"),
        "head": ArtefactCommit(hash=HEAD, subject="rope: twice the loads in flight"),
        "machine": "runner-1",
        "gpu": "Tesla T4",
        "outcome": outcome_of(rows),
        "threshold": 0.02,
        "family_error": 0.01,
        "rows": rows,
        "cost": Cost(runs=4, minutes=11.5, stopped=StopReason.DECIDED),
    }
    return GateArtefact(**(stated | other))


REGISTERS = CodeDifference(
    operator="rope",
    implementation="warpwatch",
    kernel="rope_kernel<half>",
    architecture="sm_75",
    state="changed",
    facts=(
        CodeFact(name="registers", unit="", before=96, after=128),
        CodeFact(name="local memory instructions", unit="", before=0, after=12),
    ),
    instructions=(CodeFact(name="total", unit="", before=400, after=512),),
)

FULL = artefact(
    row(1, Verdict.REGRESSED),
    row(2, Verdict.INVALID),
    row(3, Verdict.INCONCLUSIVE),
    row(4, Verdict.IMPROVED),
    row(5, Verdict.UNCHANGED),
    row(6, Verdict.MISSING, base=None, reason="not measured at base"),
    drift=ArtefactDrift(
        machine="runner-1",
        change=0.012,
        controls=5,
        canaries=(ArtefactCanary(workload="cuda-fp32-triad-128mib", change=0.012),),
    ),
    code=(REGISTERS,),
)
QUIET = artefact(row(1, Verdict.UNCHANGED), row(2, Verdict.UNCHANGED))
