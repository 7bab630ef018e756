"""One operator measured once, from Python:

    result = OneOff(FlashAttention, batch=32, seq_len=1024).run()[0]
    print(result.table())
    result.export("out.json")

It is measured as asv's runs are: in a worker process of its own, behind the gate, by the same stopwatch. No torch here.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ..benchmark import KernelBenchmark
from ..protocol import OPTIONAL_METRICS, Job, Outcome
from ..quantity_text import quantity
from ..session import Results, measure
from ..watched_worker import Limits
from ..workload import ANY_DEVICE, Workload
from .ad_hoc import BadRequestError, ad_hoc_workload, hint
from .result import BenchmarkResult

_BENCHMARK = "one-off"  # the name that the records carry where asv's have that of a class
_GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_DEVICES = ("cuda", "cpu")
_MUCH_FOR_A_CPU = 1e11  # FLOPs: some ten calls, and two references in float64, outlast the time limit on one thread


class OneOff:
    """Cases of an operator, or a shape of one's own, ready to be measured.

    The shape's options are those of the class's `case`; without any, the class's own cases are measured, or those named
    in `cases`. By default on the GPU where there is one, else on the CPU, and by every implementation. `metrics` are of
    protocol.OPTIONAL_METRICS. Raises BadRequestError, a ValueError, for what there is not.
    """

    def __init__(
        self,
        kind: type[KernelBenchmark],
        *,
        cases: Collection[str] = (),
        dtype: str | None = None,
        device: str | None = None,
        implementations: Collection[str] = (),
        metrics: Collection[str] = (),
        quick: bool = False,
        **shape: int | bool | None,
    ) -> None:
        if device not in (None, *_DEVICES):
            raise BadRequestError(f"no device {device!r}; there are cuda and cpu")
        for metric in metrics:
            if metric not in OPTIONAL_METRICS:
                raise BadRequestError(f"no metric {metric!r}; there are {', '.join(OPTIONAL_METRICS)}")
        if cases and (shape or dtype):
            raise BadRequestError("a case has its own shape and dtype: give either cases or a shape")
        self._operator, self._device = kind.operator, device
        # The worker finds out whether there is a GPU, so that this process need not import torch.
        places = [device] if device else list(_DEVICES)
        if shape or dtype:
            self._workloads = [ad_hoc_workload(kind, place, dtype, **shape) for place in places]
        else:
            self._workloads = _chosen_cases(kind, cases, places)
        if "energy" in metrics:
            self._workloads = [replace(workload, energy_of=workload.implementations) for workload in self._workloads]
        self._jobs = [
            Job(
                benchmark=_BENCHMARK,
                workload=workload,
                implementation=implementation,
                quick=quick,
                metrics=tuple(metrics),
            )
            for workload in self._workloads
            for implementation in _chosen(workload, implementations, self._workloads)
        ]

    def waiting_after(self, outcome: Outcome) -> tuple[str, ...]:
        """The implementations still to be measured when this outcome is reported, in their order."""
        done = outcome.measurement
        device = next(job.workload.device for job in self._jobs if job.workload.name == done.workload)
        jobs = [job for job in self._jobs if job.workload.device == device]
        names = [(job.workload.name, job.implementation) for job in jobs]
        return tuple(job.implementation for job in jobs[names.index((done.workload, done.implementation)) + 1 :])

    def run(
        self, *, limits: Limits | None = None, on_outcome: Callable[[Outcome], None] = lambda outcome: None
    ) -> list[BenchmarkResult]:
        """Measure; `on_outcome` is called with each implementation's outcome as it comes. A result for each case.

        Raises WorkerStartError if no worker can be started, BadRequestError if this machine has none of what was asked.
        """

        limits = limits or Limits()
        self._refuse_too_much(limits)

        def ours(outcome: Outcome) -> None:
            if outcome.measurement.benchmark == _BENCHMARK:  # else it is a control's
                on_outcome(outcome)

        with _gpus_hidden() if self._device == "cpu" else contextlib.nullcontext():
            return self._results(measure(self._jobs, limits=limits, on_outcome=ours))

    def _refuse_too_much(self, limits: Limits) -> None:
        """A GPU's shape on a CPU would end in time limits after many minutes, unless the caller raises the limit."""
        much = [workload for workload in self._workloads if workload.cost.flops >= _MUCH_FOR_A_CPU]
        much = [workload for workload in much if workload.device in ("cpu", ANY_DEVICE)]
        if not much or limits.job_s > Limits().job_s:
            return
        from .. import context  # imports torch, which takes seconds

        if self._device == "cpu" or context.device() == "cpu":
            raise BadRequestError(
                f"one call of {much[0].name} is {quantity(much[0].cost.flops, 'FLOP')}, too much for one CPU thread "
                f"within {limits.job_s:g} s: take a smaller shape, a GPU, or a higher limit"
            )

    def _results(self, results: Results) -> list[BenchmarkResult]:
        device = results.run.device
        here = [workload for workload in self._workloads if workload.device in (device, ANY_DEVICE)]
        if not here:
            missing = "torch sees no GPU here, so nothing" if device == "cpu" else "there is a GPU here, so nothing"
            raise BadRequestError(f"{missing} can be measured on {self._device or self._workloads[0].device}")
        ours = [outcome for outcome in results.outcomes if outcome.measurement.benchmark == _BENCHMARK]
        if not ours:
            raise BadRequestError(
                f"{self._operator} has none of these implementations on {device}; "
                f"it has {', '.join(here[0].implementations)}"
            )
        controls = tuple(outcome for outcome in results.outcomes if outcome not in ours)
        found = []
        for workload in here:
            outcomes = tuple(outcome for outcome in ours if outcome.measurement.workload == workload.name)
            if outcomes:
                found.append(BenchmarkResult(run=results.run, workload=workload, outcomes=outcomes, controls=controls))
        return found


def _chosen_cases(kind: type[KernelBenchmark], names: Collection[str], devices: Collection[str]) -> list[Workload]:
    """The class's workloads on these devices, or those of these names. Raises BadRequestError."""
    known = {workload.name: workload for workload in kind.workloads()}
    for name in names:
        if name not in known:
            raise BadRequestError(f"{kind.operator} has no case {name!r}{hint(name, known)}; it has {', '.join(known)}")
    chosen = [known[name] for name in names] or list(known.values())
    return [workload for workload in chosen if workload.device in (*devices, ANY_DEVICE)]


def _chosen(workload: Workload, wanted: Collection[str], workloads: Collection[Workload]) -> list[str]:
    """The wanted implementations that this workload has, in its order; all where none are named."""
    known = dict.fromkeys(name for one in workloads for name in one.implementations)
    for name in wanted:
        if name not in known:
            raise BadRequestError(
                f"{workload.operator} has no implementation {name!r}{hint(name, known)}; it has {', '.join(known)}"
            )
    return [name for name in workload.implementations if not wanted or name in wanted]


@contextlib.contextmanager
def _gpus_hidden() -> Iterator[None]:
    """The worker started within sees no GPU, and so measures on the CPU."""
    before = os.environ.get(_GPU_VARIABLE)
    os.environ[_GPU_VARIABLE] = ""
    try:
        yield
    finally:
        del os.environ[_GPU_VARIABLE]
        if before is not None:
            os.environ[_GPU_VARIABLE] = before
