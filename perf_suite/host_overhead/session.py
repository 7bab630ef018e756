"""Measure every operator's host overhead in one process that may crash or hang, and write the records. No torch."""

import importlib.util
import json
import statistics
import subprocess
import tempfile
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..child_process import python_running
from ..protocol import Outcome
from ..records import MeasurementRecord, RunRecord, Status, from_line
from ..samples import thinned
from ..spool import Spool
from ..workload_record import workload_record
from ..workloads.workload import Workload
from .order import Order
from .smallest import OPERATORS, smallest

_REASON_LENGTH, _LAST_WORDS = 500, 300
_LIMIT_S = 180.0  # for all combinations: torch from a cold disk, Triton's first compilations


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOverheadResults:
    """What was measured by (operator, implementation), or the piece that is missing here."""

    outcomes: dict[tuple[str, str], Outcome]
    unavailable: str | None = None


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """What one process left behind. A case is "rope-warpwatch"."""

    record: RunRecord
    how_it_ended: str
    measured: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # pytest-benchmark's visits by case
    problems: dict[str, tuple[Status, str]] = field(default_factory=dict)
    unfinished: str | None = None  # the case it died in


def measure_host_overhead(benchmark: str, *, quick: bool = False, limit_s: float = _LIMIT_S) -> HostOverheadResults:
    """Every operator × implementation of this machine's device.

    One that kills its process, or is on when `limit_s` have passed, is recorded as failed, and the others are measured
    by another process. Raises RuntimeError if a process ends before it could measure.
    """
    if importlib.util.find_spec("pytest_benchmark") is None:
        return HostOverheadResults(outcomes={}, unavailable="pytest-benchmark is missing: pip install pytest-benchmark")
    run = uuid.uuid4().hex
    lost: dict[str, tuple[Status, str]] = {}
    while (attempt := _attempt(run, quick, limit_s, tuple(lost))).unfinished is not None:
        lost[attempt.unfinished] = (Status.FAILED, attempt.how_it_ended)
    attempt.problems.update(lost)
    workloads = [smallest(operator, attempt.record.device) for operator in OPERATORS]
    outcomes = {
        (workload.name, implementation): _outcome(run, benchmark, workload, implementation, attempt)
        for workload in workloads
        for implementation in workload.implementations
    }
    spool = Spool(run)
    spool.append(attempt.record, *(workload_record(run, benchmark, workload) for workload in workloads))
    spool.append(*(outcome.measurement for outcome in outcomes.values()))
    return HostOverheadResults(outcomes=outcomes)


def _attempt(run: str, quick: bool, limit_s: float, lost: tuple[str, ...]) -> _Attempt:
    with tempfile.TemporaryDirectory(prefix="perf_suite_host_overhead_") as name:
        journal, report = Path(name) / "journal", Path(name) / "report.json"
        order = Order(run=run, quick=quick, lost=lost, journal=str(journal), report=str(report))
        how = _carried_out(order, Path(name) / "output", limit_s)
        lines = journal.read_text().splitlines() if journal.exists() else []
        if not lines:
            raise RuntimeError(f"host overhead was not measured: {how}")
        record = from_line(lines[0])
        assert isinstance(record, RunRecord)
        attempt = _Attempt(record=record, how_it_ended=how)
        _read_journal(attempt, lines[1:])
        if attempt.unfinished is None:
            _read_report(attempt, report)
        return attempt


def _carried_out(order: Order, output: Path, limit_s: float) -> str:
    """Run a child to its end; how it ended, in words."""
    command, text = python_running("perf_suite.host_overhead.child"), json.dumps(asdict(order))
    with output.open("w") as file:
        try:
            done = subprocess.run(
                command, input=text, text=True, stdout=file, stderr=file, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no end after {limit_s:g} s; the process was killed"
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    said = output.read_text(errors="replace").strip()[-_LAST_WORDS:]
    return f"the process ended with {how}" + (f": {said}" if said else "")


def _read_journal(attempt: _Attempt, lines: list[str]) -> None:
    for line in map(json.loads, lines):
        if "started" in line:
            attempt.unfinished = line["started"]
        elif "ended" in line:
            attempt.unfinished = None
        else:
            status = Status.UNAVAILABLE if line["problem"] == "skipped" else Status.FAILED
            attempt.problems.setdefault(line["case"], (status, line["reason"][:_REASON_LENGTH]))


def _read_report(attempt: _Attempt, report: Path) -> None:
    text = report.read_text() if report.exists() else ""  # some versions make the file before they know anything
    entries = json.loads(text)["benchmarks"] if text else []
    for entry in sorted(entries, key=lambda entry: entry["params"]["visit"]):
        case = _case(entry["params"]["operator"], entry["params"]["implementation"])
        attempt.measured.setdefault(case, []).append(entry)


def _outcome(run: str, benchmark: str, workload: Workload, implementation: str, attempt: _Attempt) -> Outcome:
    case = _case(workload.operator, implementation)
    visits = [] if case in attempt.problems else attempt.measured.get(case, [])
    status, reason = attempt.problems.get(case, (Status.OK, None) if visits else (Status.FAILED, attempt.how_it_ended))
    calls_s = tuple(round_s / visit["extra_info"]["calls"] for visit in visits for round_s in visit["stats"]["data"])
    samples_s = thinned(calls_s)
    timer = f"pytest-benchmark {attempt.record.software['pytest-benchmark']}"
    measurement = MeasurementRecord(
        run=run,
        benchmark=benchmark,
        workload=workload.name,
        implementation=implementation,
        status=status,
        reason=reason,
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


def _case(operator: str, implementation: str) -> str:
    return f"{operator}-{implementation}"
