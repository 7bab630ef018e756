"""How things are called on a page: an asv benchmark's module, its name there, its place in a list; a card."""

import re
from collections.abc import Iterable

from .schema import SeriesSchema
from .series import Series, Workload


def module_of(benchmark: str) -> str:
    """The part before class and method: "benchmarks.rope" of "benchmarks.rope.Rope.track_latency".

    asv does not tell modules from classes; by Python's custom classes begin with a capital letter. A benchmark
    without a module is its own.
    """
    parts = benchmark.split(".")[:-1]
    while parts and parts[-1][:1].isupper():
        parts.pop()
    return ".".join(parts) or benchmark


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts numbers in names by their size: "s512" before "s2048"."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", text))


def name_in_module(benchmark: str) -> str:
    """The rest: "Rope.track_latency"."""
    module = module_of(benchmark)
    return benchmark if module == benchmark else benchmark[len(module) + 1 :]


def series_name(series: Series, operator: str | None) -> str:
    """What tells a series from others, without its module: "rope cuda-fp16-s2048 triton", "Sort.time_sort 4096"."""
    case = [value for name, value in series.parameters if value and name not in {"implementation", "workload"}]
    if series.workload:
        label = None if series.metric.is_latency else series.metric.label
        parts = [operator, series.workload, series.implementation, *case, label]
    else:
        parts = [name_in_module(series.benchmark), *case, series.implementation]
    return " ".join(part for part in parts if part)


def gpu_name(uuid: str) -> str:
    """A GPU's UUID cut to what tells cards apart: "GPU-5f1c22ab"."""
    return uuid[:12]


def cudnn_version(version: str) -> str:
    """As NVIDIA writes it: "9.19.0" of the number 91900 that the library tells; before version 9, 8902 is "8.9.2"."""
    if not version.isdecimal() or len(version) not in {4, 5}:
        return version
    major, rest = divmod(int(version), 10_000 if len(version) == 5 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def alike(listed: Iterable[Series | SeriesSchema]) -> frozenset[str]:
    """Keys of the series of a list that differ from another one of it in their environment alone."""
    places: dict[tuple[object, ...], set[str]] = {}
    for each in listed:
        places.setdefault((each.title, each.machine), set()).add(each.key)
    return frozenset(key for keys in places.values() if len(keys) > 1 for key in keys)


def canary_name(workload: str) -> str:
    """The kind of work of a canary, out of a workload's name: "triad" of "cuda-fp32-triad-128mib"."""
    return next((part for part in workload.split("-")[1:] if part.isalpha()), workload)


def kernel_name(benchmark: str, operator: str | None) -> str:
    """What a benchmark's kernel is called, wherever globs name kernels: the operator that the suite tells, or the
    benchmark's module where it tells none, "benchmarks.rope" of "benchmarks.rope.Rope.track_latency"."""
    return operator or module_of(benchmark)


def kernel_of(series: Series, workload: Workload | None) -> str:
    """Of a series; `workload` is what the suite told of its case."""
    return kernel_name(series.benchmark, workload.operator if workload is not None else None)


def kernel_page(series: Series, workload: Workload | None) -> str:
    """What a series' kernel page is called: the operator's name, or the benchmark's where no operator is known."""
    return workload.operator if workload is not None else series.benchmark
