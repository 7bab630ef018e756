"""`warpbench doctor`: what this machine and this project lack for trustworthy numbers, with the fix of each."""

import argparse
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ..calibration.ceiling_file import cpu_key, measured_ceilings
from ..compiled.benchmark import NamedKernels, named_kernels, no_such_kernel
from ..compiled.cuda_binaries import NoToolsError, find_tools
from ..compiled.library_file import NoLibraryError, find_library
from ..compiled.machine_code import kernel_names
from ..project import NoProjectError, project_here

_PLUGIN, _ENVIRONMENT = ".warpbench.asv", "warpbench"
_FOR_GPUS = {
    "cuda.bench": ("times with NVBench", "cuda-bench[cu13]"),
    "cuda.bindings": ("counts kernel launches, runs the control kernels", "cuda-bindings"),
    "pynvml": ("reads clocks, temperature and throttling", "nvidia-ml-py"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check. `fix` is empty where nothing is to be done."""

    text: str
    fix: str = ""
    is_error: bool = False


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command."""
    parser = commands.add_parser(
        "doctor",
        help="what this machine and this project lack, and how to fix it",
        description="Check torch, the GPU, what NVBench and NVML need, asv's configuration and the benchmarks. "
        "Exit status 1 if nothing can be measured.",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the findings."""
    findings = [*_machine(), *_project()]
    if arguments.format == "json":
        fields = [{"text": each.text, "fix": each.fix or None, "is_error": each.is_error} for each in findings]
        print(json.dumps(fields, indent=1))
    else:
        for each in findings:
            mark = "✗" if each.is_error else "!" if each.fix else "✓"
            print(f"{mark} {each.text}" + (f"\n    fix: {each.fix}" if each.fix else ""))
    sys.exit(1 if any(each.is_error for each in findings) else 0)


def _machine() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        yield Finding(text="PyTorch is not installed", fix="pip install torch", is_error=True)
        return
    from .. import context, processor  # imports torch

    if context.device() == "cpu":
        yield Finding(text=f"PyTorch {_version('torch')}, no GPU: cases for the CPU are measured, on one thread")
        yield _calibrated(cpu_key(processor.describe(threads=1)), "this processor")
        return
    gpu = context.GpuMonitor().gpu()
    yield Finding(text=f"PyTorch {_version('torch')}, {gpu.name}, driver {gpu.driver or 'unknown'}")
    if gpu.other_processes:
        yield Finding(
            text=f"{gpu.other_processes} other processes use the GPU: measurements during their work are invalid",
            fix="stop them, or measure on another GPU",
        )
    for module, (purpose, package) in _FOR_GPUS.items():
        if _has(module):
            yield Finding(text=f"{package} is installed: {purpose}")
        else:
            yield Finding(text=f"{package} is not installed: it {purpose}", fix=f"pip install '{package}'")
    yield _calibrated(gpu.uuid or "", gpu.name)


def _calibrated(key: str, name: str) -> Finding:
    ceilings = measured_ceilings(key)
    if ceilings is None:
        return Finding(text=f"the ceilings of {name} are not measured", fix="warpbench calibrate")
    return Finding(text=f"the ceilings of {name} were measured {ceilings.measured_at}")


def _project() -> Iterator[Finding]:
    try:
        project = project_here()
    except NoProjectError as error:
        yield Finding(text=str(error), fix="warpbench init", is_error=True)
        return
    if _PLUGIN not in project.plugins:
        yield Finding(
            text="asv's configuration does not name the plugin: asv would record no context",
            fix=f'add "plugins": ["{_PLUGIN}"] to asv.conf.json',
            is_error=True,
        )
    if project.environment_type != _ENVIRONMENT:
        yield Finding(
            text=f"asv's environments are of type {project.environment_type or 'unknown'}, without this Python's torch",
            fix=f'"environment_type": "{_ENVIRONMENT}" in asv.conf.json',
        )
    try:
        operators = project.operators
    except Exception as error:  # a benchmark module may raise anything when it is imported
        yield Finding(text=f"the benchmarks cannot be imported: {error!r}", fix="correct the module", is_error=True)
        return
    if not operators:
        yield Finding(
            text=f"{project.benchmarks} has no KernelBenchmark with cases", fix="warpbench init", is_error=True
        )
    for name, kind in operators.items():
        yield Finding(text=f"{name}: {len(kind.cases)} cases × {', '.join(kind.params[1])}")
        for named in named_kernels(kind):
            yield from _library(named)


def _library(named: NamedKernels) -> Iterator[Finding]:
    """Whether the library of an implementation is here and has each of the kernels that it names."""
    if named.library is None:
        return
    try:
        path = find_library(named.library)
        names = kernel_names(path, find_tools())
    except NoLibraryError as error:
        yield Finding(text=f"{named.kind.__name__}.{named.implementation}: {error}", fix="build the project")
        return
    except NoToolsError as error:
        yield Finding(text=f"no compiled code is read: {error}", fix="pip install pyelftools triton")
        return
    for pattern in named.patterns:
        if any(re.fullmatch(pattern, name) for name in names):
            yield Finding(text=f"{path.name} has {pattern}")
        else:
            yield Finding(text=no_such_kernel(pattern, named, names, str(path)), fix="correct kernels=")


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # no parent package at all
        return False


def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution)
