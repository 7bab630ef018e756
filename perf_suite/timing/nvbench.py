"""GPU stopwatch: NVBench (NVIDIA's CUDA Kernel Benchmarking Library), from the package `cuda-bench`.

It writes over the L2 before each sample, holds the stream until the host has enqueued the whole call, measures the
SM clock beside each sample, and stops once the entropy of the samples settles.

NVBench runs its benchmarks once in a process, so the worker's jobs run inside it: one benchmark with one axis value
a job, whose body is the worker's own; `sample_latency` times its call with the state of the job that is on.
"""

import importlib.metadata
import importlib.util
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .timing import Timing, TimingError

_BENCHMARK = "perf_suite"
# Percent of the default SM clock below which NVBench throws a sample away and waits. Tensor-core kernels pull an H200
# to 72-80 % for power alone, with no clock event reported: 90, CCCL's choice, left a matmul without a single sample.
# Half is for a machine in real trouble; clock events and the recorded per-sample clocks tell the rest.
_THROTTLE_THRESHOLD = 50
_TIMEOUT_S = 10


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


class NVBench:
    """The one run of NVBench that a process can have."""

    def __init__(self) -> None:
        self._state: Any = None  # of the job that is on
        self._report = Path()
        self._error: BaseException | None = None

    def for_each(self, count: int, body: Callable[[int], None], *, quick: bool) -> None:
        """Call `body(0)` to `body(count - 1)` inside NVBench. What a body raises ends the run and is raised here."""
        import cuda.bench

        if count == 0:
            return

        def job(state: Any) -> None:
            if self._error is not None:
                state.skip("an earlier job ended the run")
                return
            self._state = state
            try:
                body(int(state.get_string("job")))
            except BaseException as error:
                self._error = error
                state.skip(repr(error))
            finally:
                self._state = None

        benchmark = cuda.bench.register(job)
        benchmark.set_name(_BENCHMARK)
        benchmark.add_string_axis("job", [str(index) for index in range(count)])
        if quick:
            benchmark.set_stopping_criterion("sample-count")
            benchmark.set_criterion_param_int64("target-samples", 10)
        else:
            benchmark.set_stopping_criterion("entropy")
        with tempfile.TemporaryDirectory(prefix="perf_suite_nvbench_") as folder:
            self._report = Path(folder) / "report.json"
            options = ["--timeout", str(_TIMEOUT_S), "--throttle-threshold", str(_THROTTLE_THRESHOLD)]
            options += ["--devices", str(torch.cuda.current_device())]  # else each job runs on every GPU there is
            cuda.bench.run_all_benchmarks([_BENCHMARK, "--quiet", *options, "--jsonbin", str(self._report)])
        if self._error is not None:
            raise self._error

    def sample_latency(self, run: Callable[[], torch.Tensor]) -> Timing:
        """Cold-L2 samples of one call on NVBench's own stream; once a job.

        Raises TimingError if NVBench kept no sample, and whatever `run` raised.
        """
        raised: list[BaseException] = []

        def launch(launch: Any) -> None:
            stream = torch.cuda.ExternalStream(launch.get_stream().addressof())
            try:
                with torch.cuda.stream(stream):
                    run()
            except BaseException as error:
                raised.append(error)
                raise

        earlier = self._newest("bin")
        try:
            self._state.exec(launch, batched=False)
        except Exception as error:
            raise (raised[0] if raised else error) from None
        times = self._newest("bin")
        if times is None or times == earlier:
            raise TimingError(f"NVBench kept no sample: clocks stayed below {_THROTTLE_THRESHOLD} %")
        clocks = self._report.with_name(f"{self._report.name}-freqs-bin") / times.name
        return Timing(
            samples_s=_floats(times),
            sm_clock_hz=_floats(clocks) if clocks.exists() else None,
            cache="cold",
            timer=f"nvbench {version()}",
        )

    def _newest(self, kind: str) -> Path | None:
        """NVBench writes one file of float32 a state, numbered as they come, before `exec` returns."""
        files = self._report.with_name(f"{self._report.name}-{kind}").glob("*.bin")
        return max(files, key=lambda file: int(file.stem), default=None)


def _floats(file: Path) -> tuple[float, ...]:
    values = array("f")
    values.frombytes(file.read_bytes())
    return tuple(values)


def _has_package() -> bool:
    try:
        return importlib.util.find_spec("cuda.bench") is not None
    except ModuleNotFoundError:  # no package "cuda" at all
        return False
