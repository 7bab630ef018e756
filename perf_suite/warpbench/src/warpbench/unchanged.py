"""Which workloads need no measuring, because the code of their kernels has been measured already. No torch here.

Asked for with WARPBENCH_SKIP_UNCHANGED=1. Of a workload whose kernels have all been measured before, by the same
code on the same GPU and software, nothing is measured, the baselines neither: they move with nothing of ours.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .child_process import python_running
from .protocol import Job
from .records import Gpu, MeasurementRecord, RunRecord, Status, from_line


@dataclass(frozen=True, slots=True)
class Code:
    """A workload × implementation, and the code_digest of what ran."""

    benchmark: str
    workload: str
    implementation: str
    sha256: str
    metrics: tuple[str, ...]  # the optional ones that were asked for


def measured_before(contexts: Iterable[Path], here: RunRecord) -> Mapping[Code, str]:
    """The full hash of the commit that measured each code last and got a number, of context files of earlier commits.

    A run counts only if its GPU, or on the CPU its processor, and its software were those of `here`. What was skipped
    as unchanged counts for the commit that it was measured at, not for the one that skipped it.
    """
    found: dict[Code, tuple[str, str]] = {}
    for path in contexts:
        runs: dict[str, RunRecord] = {}
        for line in path.read_text().splitlines():
            if json.loads(line)["record"] not in (RunRecord.record, MeasurementRecord.record):
                continue
            record = from_line(line)
            if isinstance(record, RunRecord):
                runs[record.run] = record
            elif isinstance(record, MeasurementRecord) and _counts(record):
                run = runs.get(record.run)
                names = record.benchmark, record.workload, record.implementation
                code = Code(*names, record.code_sha256 or "", record.metrics)
                if run and _is_alike(run, here) and run.started_at > found.get(code, ("", ""))[0]:
                    found[code] = run.started_at, run.commit
    return {code: commit for code, (_, commit) in found.items()}


def _counts(record: MeasurementRecord) -> bool:
    return record.status is Status.OK and record.code_sha256 is not None and not record.quick


def _is_alike(run: RunRecord, here: RunRecord) -> bool:
    """Another commit, on the same device, by the same software and the same suite."""
    if run.commit == here.commit or run.suite_sha256 is None or run.suite_sha256 != here.suite_sha256:
        return False
    if run.device != here.device or dict(run.software) != dict(here.software):
        return False
    if run.gpu is None or here.gpu is None:
        return run.gpu == here.gpu and (run.cpu.model, run.cpu.threads) == (here.cpu.model, here.cpu.threads)
    return _lasting(run.gpu) == _lasting(here.gpu)


def _lasting(gpu: Gpu) -> dict[str, object]:
    return {name: value for name, value in asdict(gpu).items() if name != "other_processes"}


_LIMIT_S = 120.0
ASKED_VARIABLE = "WARPBENCH_SKIP_UNCHANGED"
RESULTS_VARIABLE = "WARPBENCH_RESULTS"  # set by asv.py: asv's results folder


def digests(jobs: Sequence[Job], run: RunRecord) -> Mapping[tuple[str, str], str | None]:
    """code_digest on this run's device of each (operator, implementation) of the jobs.

    In a process of its own: it imports the commit's package, which may do anything. None of all if that fails.
    """
    sources = {(job.workload.operator, job.implementation): job.workload.source for job in jobs}
    pairs = {pair: " ".join([source, *pair]) for pair, source in sorted(sources.items())}
    capability = run.gpu.compute_capability if run.gpu else ""
    command = [*python_running("warpbench.code_digest"), capability, *pairs.values()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        return dict.fromkeys(pairs)
    return {pair: found[text] for pair, text in pairs.items()}


def unchanged(
    jobs: Sequence[Job], run: RunRecord, digests: Mapping[tuple[str, str], str | None]
) -> Mapping[tuple[str, str], str]:
    """The (benchmark, workload) that need no measuring, each with the commit that was; none unless asked for."""
    results = os.environ.get(RESULTS_VARIABLE)
    if os.environ.get(ASKED_VARIABLE) != "1" or not results:
        return {}
    before = measured_before(sorted(Path(results).rglob("*.context.jsonl")), run)
    kernels: dict[tuple[str, str], list[str | None]] = {}
    for job in jobs:
        if job.implementation in job.workload.kernels:
            digest = digests[job.workload.operator, job.implementation]
            code = Code(job.benchmark, job.workload.name, job.implementation, digest or "", job.metrics)
            kernels.setdefault((job.benchmark, job.workload.name), []).append(before.get(code))
    return {workload: commits[0] for workload, commits in kernels.items() if all(commits) and commits[0]}
