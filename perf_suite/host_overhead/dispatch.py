"""Host seconds until a call has enqueued its work, with pytest-benchmark. By hand, with its table:

    python -m pytest perf_suite/host_overhead/dispatch.py

On a GPU a round is a group of calls with the GPU idle before it, few enough that the queue of launches never fills, and
nobody waits for the GPU inside a round. On the CPU the calls compute as well: dispatch and a tiny kernel together.
Every combination is visited several times, all others in between, so that a slow moment of the machine is shared.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from warpbench import context
from warpbench.gate import Gate
from warpbench.output import Output
from warpbench.prepared import UnavailableError
from warpbench.setting import set_up

from ..implementations import prepare
from .smallest import OPERATORS, case, smallest

# A GPU takes about 1000 launches ahead of time. The longest call here, eager attention, enqueues about ten kernels.
CALLS = 50
ROUNDS = 20  # of a visit
VISITS = 5
_WARM_UP_ROUNDS = 4


def pytest_generate_tests(metafunc: Any) -> None:
    """Visits of every operator × implementation of this machine's device, or of the cases asked for."""
    device = context.device()
    asked = metafunc.config.getoption("--case", default=None)
    visits = [
        (operator, implementation, visit)
        for visit in range(metafunc.config.getoption("--visits", default=None) or VISITS)
        for operator in OPERATORS
        for implementation in smallest(operator, device).implementations
        if asked is None or case(operator, implementation) in asked
    ]
    names = ["-".join(map(str, visit)) for visit in visits]
    metafunc.parametrize(("operator", "implementation", "visit"), visits, ids=names)


def test_dispatch(operator: str, implementation: str, visit: int, benchmark: Any, request: Any) -> None:
    """One visit: right first, then fast."""
    import pytest  # not above: asv imports every module of the suite, also where there is no pytest

    try:
        run, error = _prepared(operator, implementation)
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


@functools.cache
def _prepared(operator: str, implementation: str) -> tuple[Callable[[], Output], float]:
    """The call, and its relative error. Raises UnavailableError, and WrongResultError instead of a wrong call."""
    workload = smallest(operator, context.device())
    setting = set_up(workload)
    run = prepare(workload, implementation, setting.inputs).run
    is_baseline = implementation in workload.baselines
    gate = Gate(run, setting.inputs, setting.questions, workload.tolerance, is_baseline=is_baseline)
    return run, gate.check()


def _many(run: Callable[[], Output]) -> Callable[[], None]:
    """CALLS calls, each result dropped at once so that the next finds its memory free."""

    def group() -> None:
        for _ in itertools.repeat(None, CALLS):
            run()

    return group
