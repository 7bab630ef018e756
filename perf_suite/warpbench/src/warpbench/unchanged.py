"""Which workloads need no measuring, because the code of their kernels has been measured already. No torch here.

Asked for with WARPBENCH_SKIP_UNCHANGED=1. Of a workload whose kernels have all been measured before, by the same
code on the same GPU and software, nothing is measured, the baselines neither: they move with nothing of ours.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .child_process import python_running
from .earlier_code import Code, measured_before
from .protocol import Job
from .records import RunRecord

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
