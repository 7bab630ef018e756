"""A GPU's ceilings: DRAM, L2, and each dtype's math units, by PyTorch's own kernels on random data.

Random, for zeros switch fewer transistors and let a power-limited GPU clock higher than it ever does at work.
"""

import datetime
import functools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .. import context, validity
from .ceiling_file import BANDWIDTH, L2_BANDWIDTH, Calibration, Ceiling
from .sustained import Sustained, sustained

_L2_SHARE = 3 / 8  # Hopper's two halves may each keep a copy of what the other holds
_WINDOWS_IN_BUFFER = 32
# From 8192 int64 on, PyTorch's reduction gives a row to a whole block of 512 threads; below, to a warp, whose
# neighbours would read nearly the same window through the same L1.
_LEAST_WINDOW = 8192 * 8
_LINE = 128
_CALL_BYTES = 2 << 30  # some hundred microseconds, against which the launch is negligible


class L2TooSmallError(Exception):
    """Windows that no L1 holds would not fit into this L2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """`count` windows of `length` bytes, each starting `shift` bytes after the one before, all read `repeats` times."""

    buffer: int  # bytes
    length: int
    shift: int
    count: int
    repeats: int

    @property
    def bytes_read(self) -> int:
        """By one call."""
        return self.repeats * self.count * self.length


def windows(l2_bytes: int, sm_count: int) -> Windows:
    """Windows for an L2 of this size, a thread block each.

    Blocks are dealt to the SMs in turn. So the windows are shifted by their length over the number of SMs, and their
    count is a multiple of it: those that one SM is dealt lie side by side and cover the buffer before the first comes
    again, which by then has left the L1. Raises L2TooSmallError.
    """
    buffer = int(l2_bytes * _L2_SHARE) // _LINE * _LINE
    length = max(buffer // _WINDOWS_IN_BUFFER // _LINE * _LINE, _LEAST_WINDOW)
    shift = math.ceil(length / sm_count / _LINE) * _LINE
    count = (buffer - length) // shift // sm_count * sm_count
    if count <= 0:
        raise L2TooSmallError(f"an L2 of {l2_bytes} bytes is too small to read from again and again")
    return Windows(
        buffer=buffer, length=length, shift=shift, count=count, repeats=math.ceil(_CALL_BYTES / (count * length))
    )


_LARGEST_ARRAY = 1 << 30  # bytes; three of them are 50 times an H200's L2
_ROTATION = 4  # matmul inputs together, in L2 sizes, so that a call finds none of its own there
_MATMUL_SIZES = (8192, 4096, 2048, 1024)
_CALL_S = 20e-3  # longest matmul: a slow GPU is given a smaller one


def calibrate(on_step: Callable[[str], None] = lambda name: None) -> Calibration:
    """Measure the current GPU; `on_step` hears the name of each ceiling before it is measured. About 20 s."""
    monitor = context.GpuMonitor()
    gpu, before, began_us = monitor.gpu(), monitor.conditions(), time.time_ns() // 1000  # NVML's clock
    steps: dict[str, Callable[[], Ceiling]] = {
        BANDWIDTH: _bandwidth,
        L2_BANDWIDTH: _l2_bandwidth,
        "fp32": lambda: _floating("fp32", torch.float32),
        "tf32": lambda: _floating("tf32", torch.float32),
        "fp16": lambda: _floating("fp16", torch.float16),
        "bf16": lambda: _floating("bf16", torch.bfloat16),
        "int8": _int8,
    }
    missing = _not_in_hardware()
    ceilings, left_out = [], {}
    for name, measure in steps.items():
        if name in missing:
            left_out[name] = missing[name]
            continue
        on_step(name)
        try:
            ceilings.append(measure())
        except (RuntimeError, L2TooSmallError) as error:  # out of memory, or cuBLAS has no such kernel for this GPU
            left_out[name] = str(error).partition("\n")[0]
        torch.cuda.empty_cache()
    return Calibration(
        uuid=gpu.uuid or "",
        name=gpu.name,
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        driver=gpu.driver,
        power_limit_w=gpu.power_limit_w,
        software=context.software(),
        ceilings=tuple(ceilings),
        left_out=left_out,
        note=_remarks(monitor, before, began_us),
    )


def _remarks(monitor: context.GpuMonitor, before: context.Conditions, began_us: int) -> str | None:
    """What kept the GPU from its best; the ceilings are stored all the same, and say so."""
    gained = monitor.conditions().throttled_s
    throttled_s = {reason: seconds - before.throttled_s.get(reason, seconds) for reason, seconds in gained.items()}
    contenders = len(monitor.at_work(began_us))
    return "; ".join(filter(None, (validity.throttled(None, throttled_s), validity.contended(contenders)))) or None


def _not_in_hardware() -> dict[str, str]:
    capability = torch.cuda.get_device_capability()
    said = f"compute capability {capability[0]}.{capability[1]} has none"
    return {} if capability >= (8, 0) else {"tf32": said, "bf16": said}


def _bandwidth() -> Ceiling:
    """The better of McCalpin's STREAM triad and copy, in fp32, over arrays far beyond the L2."""
    array = min(_LARGEST_ARRAY, _free_bytes() // 8) // 4096 * 4096
    a, b, c = (_normal(array // 4, dtype=torch.float32) for _ in range(3))
    ways = {
        "triad": (3, sustained([lambda: torch.add(a, b, alpha=0.5, out=c)])),
        "copy": (2, sustained([lambda: c.copy_(a)])),
    }
    rates = {way: arrays * array / result.call_s for way, (arrays, result) in ways.items()}
    best = max(rates, key=lambda way: rates[way])
    others = ", ".join(f"{way} {rate / 1e9:.0f} GB/s" for way, rate in rates.items() if way != best)
    arrays, result = ways[best]
    return _ceiling(BANDWIDTH, arrays * array, result, f"{best} over {arrays} x {array / 2**20:.0f} MiB ({others})")


def _l2_bandwidth() -> Ceiling:
    """Reads of a buffer that stays in the L2, by one kernel that reads it hundreds of times: a sum a window."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    read = windows(properties.L2_cache_size, properties.multi_processor_count)
    # int64: the widest load of a reduction over a strided view, and integers add at full rate on every GPU.
    data = torch.randint(-(1 << 30), 1 << 30, (read.buffer // 8,), device="cuda")
    view = data.as_strided((read.repeats, read.count, read.length // 8), (0, read.shift // 8, 1))
    sums = torch.empty(read.repeats, read.count, dtype=torch.int64, device="cuda")
    result = sustained([lambda: torch.sum(view, dim=2, out=sums)])
    method = f"sums of {read.count} windows of {read.length >> 10} KiB within {read.buffer / 2**20:.1f} MiB"
    return _ceiling(L2_BANDWIDTH, read.bytes_read, result, method)


def _floating(name: str, dtype: torch.dtype) -> Ceiling:
    """cuBLAS's matmul summing in fp32; fp32 without tensor cores, tf32 with."""
    with _fp32_precision("tf32" if name == "tf32" else "ieee"):
        return _matmul(name, dtype, lambda a, b, out: torch.mm(a, b, out=out), lambda n: _normal(n, n, dtype=dtype))


def _int8() -> Ceiling:
    """cuBLASLt's int8 matmul, summing in int32."""

    def random(n: int) -> torch.Tensor:
        return torch.randint(-128, 128, (n, n), dtype=torch.int8, device="cuda")

    return _matmul("int8", torch.int32, lambda a, b, out: torch._int_mm(a, b, out=out), random)


def _matmul(
    name: str,
    out_dtype: torch.dtype,
    multiply: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any],
    random: Callable[[int], torch.Tensor],
) -> Ceiling:
    """A square matmul, both operands contiguous along the summed dimension as in a linear layer, inputs rotated."""

    def calls(n: int, sets: int) -> list[Callable[[], Any]]:
        out = torch.empty(n, n, dtype=out_dtype, device="cuda")
        inputs = [(random(n), random(n).t()) for _ in range(sets)]
        return [functools.partial(multiply, a, b, out) for a, b in inputs]

    n = _matmul_size(calls)
    l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    sets = max(2, math.ceil(_ROTATION * l2 / (2 * n * n * random(1).itemsize)))
    result = sustained(calls(n, sets))
    return _ceiling(name, 2 * n**3, result, f"matmul of {n} x {n} x {n}, {sets} pairs of inputs in turn")


def _matmul_size(calls: Callable[[int, int], list[Callable[[], Any]]]) -> int:
    """The largest size whose call is short enough by what a small one takes, and whose operands fit."""
    smallest = _MATMUL_SIZES[-1]
    (call,) = calls(smallest, 1)
    call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(10):
        call()
    end.record()
    end.synchronize()
    once = start.elapsed_time(end) * 1e-3 / 10
    for n in _MATMUL_SIZES:
        if once * (n / smallest) ** 3 <= _CALL_S and 8 * n * n * 4 < _free_bytes() / 2:
            return n
    return smallest


def _ceiling(name: str, work: int, result: Sustained, method: str) -> Ceiling:
    return Ceiling(
        name=name,
        rate=work / result.call_s,
        method=method,
        spread=result.spread,
        settled=result.settled,
        sm_clock_hz=result.sm_clock_hz,
    )


@contextmanager
def _fp32_precision(precision: str) -> Iterator[None]:
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = precision
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def _normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, device="cuda")


def _free_bytes() -> int:
    return torch.cuda.mem_get_info()[0]
