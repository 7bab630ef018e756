"""GPU stopwatch: NVBench (NVIDIA's CUDA Kernel Benchmarking Library), from the package `cuda-bench`.

It writes over the L2 before each sample, holds the stream until the host has enqueued the whole call,
measures the SM clock beside each sample, discards samples below 90 % of the default clock, and stops once the
entropy of the samples settles.
"""

import functools
import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .timing import Timing, TimingError

_BENCHMARK = "perf_suite"
_THROTTLE_THRESHOLD = 0.9  # of the default SM clock, CCCL's choice
_TIMEOUT_S = 10.0


def is_installed() -> bool:
    """Whether this machine has NVBench's Python package and a build of it for the CUDA in use."""
    if not _has_package():
        return False
    try:
        import cuda.bench

        cuda.bench.register  # noqa: B018 - the attribute loads the extension
    except ImportError:
        return False
    return True


def version() -> str | None:
    """Version of the installed package, or None."""
    return importlib.metadata.version("cuda-bench") if _has_package() else None


def sample_latency(run: Callable[[], torch.Tensor], *, quick: bool) -> Timing:
    """Cold-L2 samples of one call on NVBench's own stream.

    Raises TimingError if NVBench kept no sample, and whatever `run` raised.
    """
    return _runner(quick).sample_latency(run)


@functools.cache
def _runner(quick: bool) -> "_Runner":
    return _Runner(quick=quick)


class _Runner:
    """NVBench registers for the life of a process: one benchmark, given each call to time in turn."""

    def __init__(self, *, quick: bool) -> None:
        import cuda.bench

        self._name = f"{_BENCHMARK}_quick" if quick else _BENCHMARK
        self._run: Callable[[], torch.Tensor] | None = None
        self._error: BaseException | None = None
        benchmark = cuda.bench.register(self._job)
        benchmark.set_name(self._name)
        benchmark.set_throttle_threshold(_THROTTLE_THRESHOLD)
        benchmark.set_timeout(_TIMEOUT_S)
        if quick:
            benchmark.set_run_once(True)
        else:
            benchmark.set_stopping_criterion("entropy")

    def sample_latency(self, run: Callable[[], torch.Tensor]) -> Timing:
        """Run NVBench on one call and read its samples back."""
        import cuda.bench

        self._run, self._error = run, None
        try:
            with tempfile.TemporaryDirectory(prefix="perf_suite_nvbench_") as folder:
                report = Path(folder) / "report.json"
                arguments = [_BENCHMARK, "--quiet", "--benchmark", self._name, "--jsonbin", str(report)]
                try:
                    cuda.bench.run_all_benchmarks(arguments)
                except Exception as error:
                    raise self._error or error from None
                if self._error is not None:
                    raise self._error
                return _read(report, self._name)
        finally:
            self._run = None

    def _job(self, state: Any) -> None:
        state.exec(self._launch, batched=False)

    def _launch(self, launch: Any) -> None:
        assert self._run is not None
        stream = torch.cuda.ExternalStream(launch.get_stream().addressof())
        try:
            with torch.cuda.stream(stream):
                self._run()
        except BaseException as error:
            self._error = error
            raise


def _read(report: Path, name: str) -> Timing:
    from cuda.bench.results import BenchmarkResult

    state = BenchmarkResult.from_json(report)[name][0]
    if state.is_skipped:
        raise TimingError(f"NVBench skipped the measurement: {state.skip_reason}")
    samples = tuple(float(sample) for sample in state.samples or ())
    if not samples:
        raise TimingError("NVBench kept no sample: all were throttled below 90 % of the default SM clock")
    clocks = tuple(float(clock) for clock in state.frequencies or ())
    return Timing(
        samples_s=samples,
        sm_clock_hz=clocks or None,
        cache="cold",
        timer=f"nvbench {version()}",
    )


def _has_package() -> bool:
    try:
        return importlib.util.find_spec("cuda.bench") is not None
    except ModuleNotFoundError:  # no package "cuda" at all
        return False
