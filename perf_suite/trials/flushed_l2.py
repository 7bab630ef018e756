"""What a flush leaves in the L2 is part of what a cold call takes: how large a part, on this GPU.

    python -m perf_suite.trials.flushed_l2 --out perf_suite/trials/flushed-l2-h200.json

Half a minute. NVBench flushes by writing over the L2. Its lines then have to go to DRAM before the call's own can come
in, at the call's expense: reading 30 MB moves 60 MB. Each call is timed between two CUDA events behind a kernel that
holds the stream, with the L2

- `written`: full of dirty lines, as NVBench leaves it;
- `read`: full of clean lines of a buffer that was read after that;
- `steady`: clean but for as many dirty bytes as the call itself writes, as a call like it would leave it;

and `rotated`: in a CUDA graph of such calls, each on its own copy of the data, which shares the launch's cost too.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from warpbench.launches import capture
from warpbench.operators import prepare
from warpbench.output import parts
from warpbench.prepared import Prepared
from warpbench.setting import set_up

from ..catalogue import workload_named

CALLS = (
    ("int4_linear", "cuda-fp16-k4096-n14336-m1", "warpwatch"),
    ("int4_linear", "cuda-fp16-k4096-n14336-m1", "cublas"),
    ("int8_linear", "cuda-fp16-k4096-n4096-m128", "warpwatch"),
    ("int8_linear", "cuda-fp16-k4096-n4096-m128", "cublas"),
    ("decode_attention", "cuda-fp16-b8-h32-kv8-s1x4096-d128", "warpwatch"),
    ("decode_attention", "cuda-fp16-b8-h32-kv8-s1x4096-d128", "sdpa"),
    ("flash_attention", "cuda-fp16-b1-h32-s2048-d128-causal", "warpwatch"),
    ("flash_attention", "cuda-fp16-b1-h32-s2048-d128-causal", "sdpa"),
    ("reduce_sum", "cuda-fp32-o16384-r4096-i1", "warpwatch"),
    ("reduce_sum", "cuda-fp32-o1-r16384-i4096", "warpwatch"),
    ("rms_norm", "cuda-fp16-r16384-c4096", "warpwatch"),
    ("rope", "cuda-fp16-b8-h32-s2048-d128", "warpwatch"),
    ("vector_add", "cuda-fp32-n268435456", "warpwatch"),
)
_HOLD_CYCLES = 400_000  # some 0.2 ms: the host enqueues flush and call meanwhile
_SAMPLES = 100
_WARM_UP = 5
_REPLAYS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cold:
    """Median seconds of one call by the state of the L2 that it begins with."""

    benchmark: str
    implementation: str
    bytes: int  # least that must move
    written_s: float
    read_s: float
    steady_s: float
    rotated_s: float


def measure() -> list[Cold]:
    """All of CALLS on the current GPU."""
    flush = _Flush()
    found = []
    for operator, name, implementation in CALLS:
        workload = workload_named(operator, name)
        setting = set_up(workload)
        calls = [prepare(workload, implementation, inputs) for inputs in setting.copies]
        out_bytes = sum(part.nbytes for part in parts(calls[0].run()))
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            found.append(
                Cold(
                    benchmark=f"{operator}.{name}",
                    implementation=implementation,
                    bytes=workload.cost.bytes,
                    written_s=_behind(flush.written, calls),
                    read_s=_behind(flush.read, calls),
                    steady_s=_behind(functools.partial(flush.steady, out_bytes), calls),
                    rotated_s=_rotated(calls),
                )
            )
        del setting, calls
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return found


class _Flush:
    """Ways to take the L2 from whoever had it, on the current stream."""

    def __init__(self) -> None:
        size = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._written = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._read = torch.zeros(2 * size // 4, dtype=torch.float32, device="cuda")
        self._sink = torch.empty((), dtype=torch.float32, device="cuda")

    def written(self) -> None:
        self._written.zero_()

    def read(self) -> None:
        self.written()
        torch.amax(self._read, dim=0, out=self._sink)

    def steady(self, dirty_bytes: int) -> None:
        self.read()
        self._written[:dirty_bytes].zero_()


def _behind(flush: Callable[[], None], calls: list[Prepared]) -> float:
    samples = []
    for index in range(_WARM_UP + _SAMPLES):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_HOLD_CYCLES)
        flush()
        start.record()
        calls[index % len(calls)].run()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(samples[_WARM_UP:])


def _rotated(calls: list[Prepared]) -> float:
    def all_of_them() -> torch.Tensor:
        for call in calls:
            out = call.run()
        return parts(out)[0]

    captured = capture(all_of_them)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(_REPLAYS + 1)]
    captured.replay()
    for mark in marks:
        mark.record()
        captured.replay()
    marks[-1].synchronize()
    return statistics.median(start.elapsed_time(end) * 1e-3 / len(calls) for start, end in itertools.pairwise(marks))


def main() -> None:
    """Measure, print and write."""
    arguments = argparse.ArgumentParser(description="a call's latency by what the flush before it leaves in the L2")
    arguments.add_argument("--out", type=Path, required=True)
    out = arguments.parse_args().out
    found = measure()
    print(table([asdict(each) for each in found]))
    gpu, software = torch.cuda.get_device_name(), {"torch": torch.__version__, "cuda": torch.version.cuda}
    out.write_text(json.dumps({"gpu": gpu, **software, "calls": [asdict(each) for each in found]}, indent=1) + "\n")


def table(calls: list[dict[str, str | int | float]]) -> str:
    """The table of trials/README.md: microseconds, in Markdown."""
    lines = ["| call | MB | written, as NVBench | read | steady | rotated |", "|---|---|---|---|---|---|"]
    for each in calls:
        name = f"{each['benchmark']} {each['implementation']}"
        times = [f"{float(each[f'{state}_s']) * 1e6:.1f}" for state in ("written", "read", "steady", "rotated")]
        lines.append(f"| {name} | {int(each['bytes']) / 1e6:.0f} | {' | '.join(times)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
