"""Host seconds until a call has enqueued its work, with pytest-benchmark.

On a GPU a round is a group of calls with the GPU idle before it, few enough that the queue of launches never fills, and
the host never waits for the GPU inside a round. On the CPU the calls compute as well: dispatch and a tiny kernel.
Every combination is visited several times, all others in between, so that a slow moment of the machine is shared.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch

from ..gate import Gate
from ..operators import prepare
from ..output import Output
from ..prepared import UnavailableError
from ..protocol import Job
from ..setting import set_up
from .session import case

# A GPU takes about 1000 launches ahead of time. The longest call here, eager attention, enqueues about ten kernels.
CALLS = 50
ROUNDS = 20  # of a visit
VISITS = 5
_WARM_UP_ROUNDS = 4


def pytest_generate_tests(metafunc: Any) -> None:
    """Several visits of each combination, all others in between."""
    jobs: dict[str, Job] = metafunc.config.host_overhead_jobs
    visits = [
        (job.workload.operator, job.implementation, visit)
        for visit in range(metafunc.config.getoption("--visits", default=None) or VISITS)
        for job in jobs.values()
    ]
    names = ["-".join(map(str, visit)) for visit in visits]
    metafunc.parametrize(("operator", "implementation", "visit"), visits, ids=names)


def test_dispatch(operator: str, implementation: str, visit: int, benchmark: Any, request: Any) -> None:
    """One visit: right first, then fast."""
    import pytest  # not above: this module can be imported where there is no pytest

    try:
        run, error = _prepared(request.config.host_overhead_jobs[case(operator, implementation)])
    except UnavailableError as reason:
        benchmark.skipped = True  # else pytest-benchmark warns that it was not used
        pytest.skip(str(reason))
    benchmark.extra_info["calls"] = CALLS
    benchmark.extra_info["relative_error"] = error
    benchmark.pedantic(
        _many(run),
        setup=torch.cuda.synchronize if torch.cuda.is_available() else None,
        rounds=request.config.getoption("--rounds", default=None) or ROUNDS,
        warmup_rounds=_WARM_UP_ROUNDS,
    )


_kept: dict[str, tuple[Callable[[], Output], float | None]] = {}


def _prepared(job: Job) -> tuple[Callable[[], Output], float | None]:
    """The call, and its relative error. Raises UnavailableError, and WrongResultError instead of a wrong call."""
    name = case(job.workload.operator, job.implementation)
    if name not in _kept:
        workload = job.workload
        setting = set_up(workload)
        run = prepare(workload, job.implementation, setting.inputs).run
        is_baseline = job.implementation in workload.baselines
        gate = Gate(run, setting.inputs, setting.vectors, workload.tolerance, is_baseline=is_baseline)
        _kept[name] = run, gate.check()
    return _kept[name]


def _many(run: Callable[[], Output]) -> Callable[[], None]:
    """CALLS calls, each result dropped at once so that the next finds its memory free."""

    def group() -> None:
        for _ in itertools.repeat(None, CALLS):
            run()

    return group
