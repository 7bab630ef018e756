"""GPU stopwatch: NVBench (NVIDIA's CUDA Kernel Benchmarking Library), from the package `cuda-bench`.

Before each sample it writes over the L2 ("cold": a memset of the L2's size), holds the stream with a blocking
kernel until the host has enqueued the whole call, so that the host's speed does not count, and measures the SM
clock during the call. What it writes of its samples is read from its own binary files. Lines that a kernel asked the L2
to keep are released before that (`l2.py`).

Calls go round many streams. A kernel's launch takes up to 0.12 us more or less by the hardware channel that its
stream is mapped to, drawn anew in each process: on an H200 that moved a 4 us kernel, or a chain of nine, by 3 % from
process to process. The mean over 16 streams moved by 0.6 %. So a recorded sample is the mean of one call on each,
as long as there are enough of them.

NVBench runs its benchmarks once in a process, so the worker's jobs run inside it: one benchmark with one axis value
a job, whose body is the worker's own; `sample_latency` times its call with the state of the job that is on.
"""

import functools
import importlib.metadata
import importlib.util
import itertools
import os
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..output import parts
from ..samples import RECORDED_SAMPLES, batches
from ..watched_worker import SCRATCH_VARIABLE
from .l2 import release_kept_lines
from .timing import TimedCall, Timing, TimingError

_BENCHMARK = "warpbench"
# Percent of the default SM clock below which NVBench throws a sample away and waits. Tensor-core kernels pull an H200
# to 72-80 % for power alone, with no clock event reported: 90, CCCL's choice, left a matmul without a single sample.
# Half is for a machine in real trouble; clock events and the recorded per-sample clocks show the rest.
_THROTTLE_THRESHOLD = 50
_TIMEOUT_S = 10
_POOL = 32  # streams that PyTorch makes of one priority
# Streams of a call whose launches are a fair part of its latency, and of one whose are not.
_STREAMS_IF_SHORT = 16
_STREAMS = 8
_SHORT_S = 50e-6  # a launch
# The spread between processes stopped falling at about 200 calls in all (H200, 16 kernels of 4 to 390 us, five
# processes). Long ones take fewer, in bursts of some 5 ms with a rest behind each: 100 ms of tensor-core work brought
# an H200 to its power cap in two processes of five, at a clock 1.5 % lower.
_MOST_CALLS = 320
_FEWEST_CALLS = 16
_TARGET_S = 0.04  # of GPU time spent in the call itself
_REST = 2.0  # times the burst
_LONGEST_REST_S = 0.05
_ENOUGH_ROWS = 10  # below that a call is a sample of its own
_ESTIMATING_CALLS = 3
_WARM_UP_CALLS = 3  # on each stream; one for each output that is alive while the gate watches


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


@functools.cache
def version() -> str | None:
    """Version of the installed package, or None."""
    return importlib.metadata.version("cuda-bench") if _has_package() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """On how many streams, how many calls on each, and how long a rest after each stream's."""

    streams: int
    calls: int
    rest_s: float


_QUICK = _Plan(streams=1, calls=10, rest_s=0.0)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One call."""

    latency_s: float
    clock_hz: float


class NVBench:
    """The one run of NVBench that a process can have."""

    def __init__(self) -> None:
        self._state: Any = None  # of the job that is on
        self._report = Path()
        self._written = 0  # files of samples so far
        self._timed = False  # whether that job has timed anything
        self._error: BaseException | None = None
        self._streams: list[torch.cuda.Stream] = []

    def for_each(self, count: int, body: Callable[[int], None]) -> None:
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
            finally:
                if not self._timed:  # failed before that, and has been reported
                    state.skip("nothing was timed")
                self._state = None
                self._timed = False

        self._streams = [torch.cuda.Stream() for _ in range(_POOL)]
        benchmark = cuda.bench.register(job)
        benchmark.set_name(_BENCHMARK)
        benchmark.add_string_axis("job", [str(index) for index in range(count)])
        # Each call says for itself how many samples it wants.
        benchmark.set_stopping_criterion("sample-count")
        benchmark.set_criterion_param_int64("target-samples", 1)
        with tempfile.TemporaryDirectory(prefix="nvbench_", dir=os.environ.get(SCRATCH_VARIABLE)) as folder:
            self._report = Path(folder) / "report.json"
            options = ["--timeout", str(_TIMEOUT_S), "--throttle-threshold", str(_THROTTLE_THRESHOLD)]
            options += ["--devices", str(torch.cuda.current_device())]  # else each job runs on every GPU there is
            cuda.bench.run_all_benchmarks([_BENCHMARK, "--quiet", *options, "--jsonbin", str(self._report)])
        if self._error is not None:
            raise self._error

    def sample_latency(self, calls: Sequence[TimedCall], *, quick: bool, visit: int = 0, visits: int = 1) -> Timing:
        """Cold-L2 samples of one call, given once for each place of its data: the streams take them in turn.

        Of several visits each takes its share of the streams.
        Raises TimingError if NVBench kept no sample, and whatever the call raised.
        """
        latency_s, out_bytes = _estimated(calls[0])
        torch.cuda.empty_cache()  # what is only kept does not count as used
        free_bytes, _ = torch.cuda.mem_get_info()
        stream_bytes = 4 * out_bytes + 2 * calls[0].peak_memory_bytes
        plan = _QUICK if quick else _plan(latency_s, calls[0].launches, stream_bytes, free_bytes)
        streams = list(enumerate(self._streams[:: _POOL // plan.streams]))
        mine = streams[visit::visits] or streams[:1]
        per_stream = -(-plan.calls // max(1, visits // plan.streams))
        taken = []
        for index, stream in mine:
            taken.append(self._on_stream(stream, calls[index % len(calls)], per_stream))
            time.sleep(plan.rest_s)
        groups: list[tuple[_Reading, ...]]
        if per_stream >= _ENOUGH_ROWS:
            groups = list(zip(*taken, strict=False))  # a call on each stream
        else:
            groups = [(reading,) for readings in taken for reading in readings]
        groups = [tuple(itertools.chain(*several)) for several in batches(groups, RECORDED_SAMPLES)]
        return Timing(
            samples_s=tuple(statistics.fmean(reading.latency_s for reading in group) for group in groups),
            calls_per_sample=len(groups[0]),
            sm_clock_hz=tuple(statistics.fmean(reading.clock_hz for reading in group) for group in groups),
            sm_cycles=statistics.median(
                statistics.fmean(reading.latency_s * reading.clock_hz for reading in group) for group in groups
            ),
            clock_over_time_hz=tuple(reading.clock_hz for readings in taken for reading in readings),
            cache="cold",
            timer=f"nvbench {version()}",
        )

    def _on_stream(self, stream: torch.cuda.Stream, call: TimedCall, calls: int) -> list["_Reading"]:
        """`calls` calls on one stream, in their order."""
        raised: list[BaseException] = []

        def launch(launch: Any, timer: Any) -> None:
            try:
                release_kept_lines()
                timer.start()  # writes over the L2 first
                out = call.run()
                timer.stop()
                call.after(out)
            except BaseException as error:
                raised.append(error)
                raise

        torch.cuda.synchronize()  # what the stream before this one still writes is read here
        with torch.cuda.stream(stream):
            _warm_up(call)
        torch.cuda.synchronize()
        self._state.set_stream(stream)
        self._state.set_min_samples(calls)
        self._timed = True
        try:
            with torch.cuda.stream(stream):  # here and not around each call, where it takes 40 us of Python
                self._state.exec(launch, timer=True, batched=False)
        except Exception as error:
            raise (raised[0] if raised else error) from None
        times = self._report.with_name(f"{self._report.name}-bin") / f"{self._written}.bin"
        if not times.exists():
            raise TimingError(f"NVBench kept no sample: clocks stayed below {_THROTTLE_THRESHOLD} %")
        self._written += 1
        clocks = self._report.with_name(f"{self._report.name}-freqs-bin") / times.name
        return [_Reading(*pair) for pair in zip(_floats(times), _floats(clocks), strict=True)]


def _plan(latency_s: float, launches: int, stream_bytes: int, free_bytes: int) -> _Plan:
    """As many streams as fit the free memory, of which each keeps `stream_bytes` to itself; one at least."""
    short = latency_s / launches < _SHORT_S
    streams = _STREAMS_IF_SHORT if short else _STREAMS
    while streams > 1 and streams * stream_bytes > free_bytes:
        streams //= 2
    calls = max(1, max(_FEWEST_CALLS, min(_MOST_CALLS, round(_TARGET_S / latency_s))) // streams)
    return _Plan(streams=streams, calls=calls, rest_s=0.0 if short else min(_REST * calls * latency_s, _LONGEST_REST_S))


def _warm_up(call: TimedCall) -> None:
    """Untimed calls on the current stream, after which a timed call finds all the memory that it needs cached.

    PyTorch caches memory by stream. A timed call that has to allocate does so while NVBench's blocking kernel holds the
    stream, and where memory is short the allocator waits for the GPU, which waits for the host: a deadlock. The gate
    holds two outputs while the next one is made, so the outputs of these calls are all held until the last is done.
    """
    held = []
    for _ in range(_WARM_UP_CALLS):
        out = call.run()
        call.after(out)
        held.append(out)


def _estimated(call: TimedCall) -> tuple[float, int]:
    """About how long a call takes, and the bytes of its output."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(_ESTIMATING_CALLS):
        out = call.run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / _ESTIMATING_CALLS, sum(
        part.untyped_storage().nbytes() for part in parts(out)
    )


def _floats(file: Path) -> tuple[float, ...]:
    values = array("f")
    values.frombytes(file.read_bytes())
    return tuple(values)


def _has_package() -> bool:
    try:
        return importlib.util.find_spec("cuda.bench") is not None
    except ModuleNotFoundError:  # no package "cuda" at all
        return False
