"""Measure every operator's host overhead in one process that may crash or hang, and write the records. No torch."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import tempfile
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..benchmark import KernelBenchmark
from ..child_process import LinesInTime, SilentError, compiling_alone, python_running
from ..protocol import Job, Outcome, jobs_to_json
from ..records import Failure, MeasurementRecord, RunRecord, Status, from_line
from ..samples import thinned
from ..spool import Spool
from ..workload import Workload, workload_record

_REASON_LENGTH, _LAST_WORDS = 500, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long the process may be silent, in seconds."""

    start_s: float = 180.0  # torch from a cold disk, the GPU, pytest
    visit_s: float = 60.0  # the gate, Triton's first compilation, and the visit itself


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOverheadResults:
    """What was measured by (operator, implementation), or what is missing here."""

    outcomes: dict[tuple[str, str], Outcome]
    unavailable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Why a case has no number."""

    status: Status = Status.FAILED
    reason: str
    failure: Failure | None


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """What one process left behind. A case is "rope-warpwatch"."""

    record: RunRecord
    end: _Problem  # of what was unfinished, and of what there is no word of
    measured: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # pytest-benchmark's visits by case
    problems: dict[str, _Problem] = field(default_factory=dict)
    unfinished: str | None = None  # the case it died in


def measure_host_overhead(
    benchmark: str,
    kinds: Mapping[str, type[KernelBenchmark]],
    *,
    asked: Collection[tuple[str, ...]] | None = None,
    quick: bool = False,
    limits: Limits | None = None,
) -> HostOverheadResults:
    """The (operator, implementation) of `asked`, or all of `kinds` by operator, that this machine's device has.

    One that kills its process, or says nothing for too long, is recorded as failed, and the others are measured by
    another process. Raises RuntimeError if a process ends before it could measure.
    """
    if importlib.util.find_spec("pytest_benchmark") is None:
        return HostOverheadResults(outcomes={}, unavailable="pytest-benchmark is missing: pip install pytest-benchmark")
    run = uuid.uuid4().hex
    waiting = [
        Job(benchmark=benchmark, workload=workload, implementation=implementation)
        for kind in kinds.values()
        for workload in (smallest(kind, device) for device in ("cuda", "cpu"))
        for implementation in workload.implementations
        if asked is None or (workload.name, implementation) in asked
    ]
    lost: dict[str, _Problem] = {}
    attempt = _attempt(run, quick, limits or Limits(), waiting)
    while attempt.unfinished is not None:
        lost[attempt.unfinished] = attempt.end
        waiting = [job for job in waiting if _case(job) != attempt.unfinished]
        if not waiting:
            break
        attempt = _attempt(run, quick, limits or Limits(), waiting)
    attempt.problems.update(lost)
    workloads = [smallest(kind, attempt.record.device) for kind in kinds.values()]
    outcomes = {
        (workload.name, implementation): _outcome(run, benchmark, workload, implementation, attempt)
        for workload in workloads
        for implementation in workload.implementations
        if asked is None or (workload.name, implementation) in asked
    }
    measured = {operator for operator, _ in outcomes}
    spool = Spool(run)
    spool.append(attempt.record, *(workload_record(run, benchmark, one) for one in workloads if one.name in measured))
    spool.append(*(outcome.measurement for outcome in outcomes.values()))
    return HostOverheadResults(outcomes=outcomes)


def _attempt(run: str, quick: bool, limits: Limits, jobs: Sequence[Job]) -> _Attempt:
    with tempfile.TemporaryDirectory(prefix="perf_suite_host_overhead_") as name:
        report = Path(name) / "report.json"
        reader, writer = os.pipe()
        order = Order(run=run, quick=quick, jobs=jobs_to_json(jobs), journal=writer, report=str(report))
        journal, end = _carried_out(order, reader, Path(name) / "output", limits)
        if not journal:
            raise RuntimeError(f"host overhead was not measured: {end.reason}")
        record = from_line(journal[0])
        assert isinstance(record, RunRecord)
        attempt = _Attempt(record=record, end=end)
        _read_journal(attempt, journal[1:])
        if attempt.unfinished is None:
            _read_report(attempt, report)
        return attempt


def _carried_out(order: Order, reader: int, output: Path, limits: Limits) -> tuple[list[str], _Problem]:
    """Run a child to its end; its journal, and how it ended."""
    journal: list[str] = []
    with output.open("w") as file:
        child = subprocess.Popen(
            python_running("warpbench.host_overhead.child"),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            pass_fds=(order.journal,),
            env=compiling_alone(),
            text=True,
        )
    os.close(order.journal)
    lines = LinesInTime(reader, child)
    try:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(json.dumps(asdict(order)))
        while (line := lines.next(limits.visit_s if len(journal) > 1 else limits.start_s)) is not None:
            journal.append(line)
        code = child.wait(limits.visit_s)
    except (SilentError, subprocess.TimeoutExpired) as silence:
        said = str(silence) if isinstance(silence, SilentError) else f"no end within {limits.visit_s:g} s"
        return journal, _Problem(reason=f"{said}; the process was killed", failure=Failure.TIME_LIMIT)
    finally:
        child.kill()
        child.wait()
        lines.close()
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    said = output.read_text(errors="replace").strip()[-_LAST_WORDS:]
    reason = f"the process ended with {how}" + (f": {said}" if said else "")
    return journal, _Problem(reason=reason, failure=Failure.CRASH)


def _case(job: Job) -> str:
    return case(job.workload.operator, job.implementation)


def _read_journal(attempt: _Attempt, lines: list[str]) -> None:
    for line in map(json.loads, lines):
        if "started" in line:
            attempt.unfinished = line["started"]
        elif "ended" in line:
            attempt.unfinished = None
        else:
            skipped = line["problem"] == "skipped"
            problem = _Problem(
                status=Status.UNAVAILABLE if skipped else Status.FAILED,
                reason=line["reason"][:_REASON_LENGTH],
                failure=None if skipped else Failure(line["failure"]),
            )
            attempt.problems.setdefault(line["case"], problem)


def _read_report(attempt: _Attempt, report: Path) -> None:
    text = report.read_text() if report.exists() else ""  # some versions make the file before they know anything
    entries = json.loads(text)["benchmarks"] if text else []
    for entry in sorted(entries, key=lambda entry: entry["params"]["visit"]):
        name = case(entry["params"]["operator"], entry["params"]["implementation"])
        attempt.measured.setdefault(name, []).append(entry)


def _outcome(run: str, benchmark: str, workload: Workload, implementation: str, attempt: _Attempt) -> Outcome:
    name = case(workload.operator, implementation)
    visits = [] if name in attempt.problems else attempt.measured.get(name, [])
    problem = None if visits else attempt.problems.get(name, attempt.end)
    calls_s = tuple(round_s / visit["extra_info"]["calls"] for visit in visits for round_s in visit["stats"]["data"])
    samples_s = thinned(calls_s)
    timer = f"pytest-benchmark {attempt.record.software['pytest-benchmark']}"
    measurement = MeasurementRecord(
        run=run,
        benchmark=benchmark,
        workload=workload.name,
        implementation=implementation,
        status=problem.status if problem else Status.OK,
        reason=problem.reason if problem else None,
        failure=problem.failure if problem else None,
        latency_s=statistics.median(samples_s) if samples_s else None,
        sample_count=len(calls_s),
        cache="warm",
        seed=workload.seed,
        timer=timer if workload.device == "cuda" else f"{timer}, CPU time",
        relative_error=visits[0]["extra_info"]["relative_error"] if visits else None,
        tolerance=workload.tolerance,
    )
    calls = visits[0]["extra_info"]["calls"] if visits else 1
    return Outcome(measurement=measurement, samples_s=samples_s, calls_per_sample=calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One process's work, and where it writes."""

    run: str
    quick: bool
    jobs: str  # as JSON; those of this machine's device are measured
    journal: int  # a file descriptor
    report: str


# Compiling it anew takes longer than measuring all the others.
_LEFT_OUT = {"torch_compile"}
_DEVICES = ("cuda", "cpu")


def smallest(kind: type[KernelBenchmark], device: str) -> Workload:
    """The operator's smallest workload, called like the operator."""
    workload = kind.workload_of(kind.smallest_case(device))
    implementations = tuple(name for name in workload.implementations if name not in _LEFT_OUT)
    return replace(workload, name=kind.operator, implementations=implementations)


def implementations(kinds: Iterable[type[KernelBenchmark]]) -> tuple[str, ...]:
    """Those of any operator on any device."""
    workloads = [smallest(kind, device) for kind in kinds for device in _DEVICES]
    return tuple(dict.fromkeys(name for workload in workloads for name in workload.implementations))


def case(operator: str, implementation: str) -> str:
    """How a combination is called between the processes: "rope-warpwatch"."""
    return f"{operator}-{implementation}"
