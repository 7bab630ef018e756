"""One operator at one shape, measured once, from Python:

    from perf_suite import KernelBenchmark

    result = KernelBenchmark("flash_attention", batch=32, seq_len=1024).run()
    print(result.table())
    result.export("out.json")

It is measured as asv's runs are: in a worker process of its own, behind the gate, by the same stopwatch. No torch here.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from warpbench.protocol import OPTIONAL_METRICS, Job, Outcome
from warpbench.quantity_text import quantity
from warpbench.session import Results, measure
from warpbench.watched_worker import Limits
from warpbench.workload import Workload

from .ad_hoc import BadRequestError, ad_hoc_workload, hint
from .result import BenchmarkResult

_BENCHMARK = "bench"  # the name that the records carry where asv's have that of a class
_GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_MUCH_FOR_A_CPU = 1e11  # FLOPs: some ten calls, and two references in float64, outlast the time limit on one thread


class KernelBenchmark:
    """An operator of the catalogue at a shape of one's own, ready to be measured.

    The shape's options are those of the operator's row builder in workloads/<op>.py. By default everything that the
    operator has is measured, on the GPU in fp16 where there is one and else on the CPU in fp32. `metrics` are of
    protocol.OPTIONAL_METRICS. Raises BadRequestError, a ValueError, for what there is not.
    """

    def __init__(
        self,
        operator: str,
        *,
        dtype: str | None = None,
        device: str | None = None,
        implementations: Collection[str] = (),
        metrics: Collection[str] = (),
        quick: bool = False,
        **shape: int | bool | None,
    ) -> None:
        if device not in (None, "cuda", "cpu"):
            raise BadRequestError(f"no device {device!r}; there are cuda and cpu")
        for metric in metrics:
            if metric not in OPTIONAL_METRICS:
                raise BadRequestError(f"no metric {metric!r}; there are {', '.join(OPTIONAL_METRICS)}")
        self._device = device
        # The worker finds out whether there is a GPU, so that this process need not import torch.
        self._workloads = {
            place: ad_hoc_workload(operator, place, dtype, **shape)
            for place in ([device] if device else ["cuda", "cpu"])
        }
        if "energy" in metrics:
            self._workloads = {
                place: replace(workload, energy_of=workload.implementations)
                for place, workload in self._workloads.items()
            }
        self._jobs = [
            Job(
                benchmark=_BENCHMARK,
                workload=workload,
                implementation=implementation,
                quick=quick,
                metrics=tuple(metrics),
            )
            for workload in self._workloads.values()
            for implementation in _chosen(workload, implementations, self._workloads.values())
        ]

    def waiting_after(self, outcome: Outcome) -> tuple[str, ...]:
        """The implementations that are still to be measured when this outcome is heard, in their order."""
        done = outcome.measurement
        names = [job.implementation for job in self._jobs if job.workload.name == done.workload]
        return tuple(names[names.index(done.implementation) + 1 :])

    def run(
        self, *, limits: Limits | None = None, on_outcome: Callable[[Outcome], None] = lambda outcome: None
    ) -> BenchmarkResult:
        """Measure; `on_outcome` hears each implementation's outcome as it comes.

        Raises WorkerStartError if no worker can be started, BadRequestError if this machine has none of what was asked.
        """

        limits = limits or Limits()
        self._refuse_too_much(limits)

        def ours(outcome: Outcome) -> None:
            if outcome.measurement.benchmark == _BENCHMARK:  # else it is a control's
                on_outcome(outcome)

        with _gpus_hidden() if self._device == "cpu" else contextlib.nullcontext():
            return self._result(measure(self._jobs, limits=limits, on_outcome=ours))

    def _refuse_too_much(self, limits: Limits) -> None:
        """A GPU's shape on a CPU would end in time limits after many minutes; who wants it raises the limit."""
        workload = self._workloads.get("cpu")
        if workload is None or workload.cost.flops < _MUCH_FOR_A_CPU or limits.job_s > Limits().job_s:
            return
        from warpbench import context  # imports torch, for which nobody has to wait otherwise

        if self._device == "cpu" or context.device() == "cpu":
            raise BadRequestError(
                f"one call of {workload.name} is {quantity(workload.cost.flops, 'FLOP')}, too much for one CPU thread "
                f"within {limits.job_s:g} s: take a smaller shape, a GPU, or a higher limit"
            )

    def _result(self, results: Results) -> BenchmarkResult:
        device = results.run.device
        if device not in self._workloads:
            raise BadRequestError("torch sees no GPU here, so nothing can be measured on cuda")
        workload = self._workloads[device]
        outcomes = [outcome for outcome in results.outcomes if outcome.measurement.benchmark == _BENCHMARK]
        if not outcomes:
            raise BadRequestError(
                f"{workload.operator} has none of these implementations on {device}; "
                f"it has {', '.join(workload.implementations)}"
            )
        return BenchmarkResult(
            run=results.run,
            workload=workload,
            outcomes=tuple(outcomes),
            controls=tuple(outcome for outcome in results.outcomes if outcome not in outcomes),
        )


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
