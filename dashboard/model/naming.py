"""Display names of benchmarks, series, kernels and GPUs."""

import re
from collections.abc import Iterable
from functools import lru_cache

from .schema import SeriesSchema
from .series import Series, Workload


@lru_cache(maxsize=10_000)
def module_of(benchmark: str) -> str:
    """The part before class and method: "benchmarks.rope" of "benchmarks.rope.Rope.track_latency".

    asv does not distinguish modules from classes; classes usually begin with a capital letter. Without a module, the
    benchmark itself.
    """
    parts = benchmark.split(".")[:-1]
    while parts and parts[-1][:1].isupper():
        parts.pop()
    return ".".join(parts) or benchmark


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key that orders numbers in names by value: "s512" before "s2048"."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", text))


def name_in_module(benchmark: str) -> str:
    """The part after the module: "Rope.track_latency"."""
    module = module_of(benchmark)
    return benchmark if module == benchmark else benchmark[len(module) + 1 :]


def series_name(series: Series, operator: str | None) -> str:
    """Short name of a series, without its module: "rope cuda-fp16-s2048 triton", "Sort.time_sort 4096"."""
    case = [value for name, value in series.parameters if value and name not in {"implementation", "workload"}]
    if series.workload:
        label = None if series.metric.is_latency else series.metric.label
        parts = [operator, series.workload, series.implementation, *case, label]
    else:
        parts = [name_in_module(series.benchmark), *case, series.implementation]
    return " ".join(part for part in parts if part)


def gpu_name(uuid: str) -> str:
    """Abbreviated UUID of a GPU: "GPU-5f1c22ab"."""
    return uuid[:12]


# Display names of recorded software; others are shown as recorded.
SOFTWARE_NAMES = {
    "torch": "PyTorch",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "triton": "Triton",
    "nvbench": "NVBench",
    "python": "Python",
}


def software_version(name: str, version: str) -> str:
    """A recorded version; cuDNN's number as NVIDIA writes it: 91900 is "9.19.0", before version 9, 8902 is "8.9.2"."""
    if name != "cudnn" or not version.isdecimal() or len(version) not in {4, 5}:
        return version
    major, rest = divmod(int(version), 10_000 if len(version) == 5 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def alike(series: Iterable[Series | SeriesSchema]) -> frozenset[str]:
    """Keys of series that differ from another one of `series` in their environment alone."""
    groups: dict[tuple[object, ...], set[str]] = {}
    for one in series:
        groups.setdefault((one.title, one.machine), set()).add(one.key)
    return frozenset(key for keys in groups.values() if len(keys) > 1 for key in keys)


def canary_name(workload: str) -> str:
    """Kind of a canary, from its workload's name: "triad" of "cuda-fp32-triad-128mib"."""
    return next((part for part in workload.split("-")[1:] if part.isalpha()), workload)


def kernel_name(benchmark: str, operator: str | None) -> str:
    """Name of a benchmark's kernel, as in policies: the operator, or the module where no operator is known:
    "benchmarks.rope" of "benchmarks.rope.Rope.track_latency".
    """
    return operator or module_of(benchmark)


def kernel_of(series: Series, workload: Workload | None) -> str:
    """`kernel_name` of a series and its workload."""
    return kernel_name(series.benchmark, workload.operator if workload is not None else None)


def kernel_page(series: Series, workload: Workload | None) -> str:
    """Name of a series' kernel page: the operator, or the benchmark where no operator is known."""
    return workload.operator if workload is not None else series.benchmark
