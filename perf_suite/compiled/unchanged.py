"""Which workloads need no measuring, because the code of their kernels has been measured already. No torch here.

Asked for with WARPWATCH_SKIP_UNCHANGED=1. Of a workload whose kernels have all been measured before, by the same
code on the same GPU and software, nothing is measured, the baselines neither: they move with nothing of ours.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..protocol import Job
from ..records import RunRecord
from .code_digest import code_digest
from .earlier_code import Code, measured_before

ASKED_VARIABLE = "WARPWATCH_SKIP_UNCHANGED"
RESULTS_VARIABLE = "PERF_SUITE_RESULTS"  # set by asv_plugin.py: asv's results folder


def digests(jobs: Sequence[Job], run: RunRecord) -> Mapping[tuple[str, str], str | None]:
    """code_digest on this run's device of each (operator, implementation) of the jobs."""
    capability = run.gpu.compute_capability if run.gpu else None
    pairs = {(job.workload.operator, job.implementation) for job in jobs}
    return {pair: code_digest(pair[1], pair[0], capability) for pair in pairs}


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
            code = Code(job.benchmark, job.workload.name, job.implementation, digest or "")
            kernels.setdefault((job.benchmark, job.workload.name), []).append(before.get(code))
    return {workload: commits[0] for workload, commits in kernels.items() if all(commits) and commits[0]}
