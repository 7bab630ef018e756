"""From a workload to its operator's class: inputs and implementations are made where they are measured."""

import functools

import torch

from . import lazy
from .benchmark import KernelBenchmark, declared_class
from .inputs import Inputs
from .prepared import Prepared, UnavailableError
from .workload import Workload


@functools.cache
def benchmark_class(source: str) -> type[KernelBenchmark]:
    """The class named "package.module:Class", with torch. Raises ImportError or AttributeError where there is none."""
    found = declared_class(source)
    lazy.load()
    return found


def make_inputs(workload: Workload, generator: torch.Generator) -> Inputs:
    """Inputs of a workload on the generator's device, drawn from it."""
    return benchmark_class(workload.source)().make_inputs(workload, generator)


def draw_again(inputs: Inputs, workload: Workload, generator: torch.Generator) -> None:
    """Other activations over the same weights, of the distribution that the operator gives them."""
    for tensor, other in zip(inputs.activations(), make_inputs(workload, generator).activations(), strict=True):
        tensor.copy_(other)


def prepare(workload: Workload, implementation: str, inputs: Inputs) -> Prepared:
    """Bind an implementation to inputs; what can be prepared ahead of a model's calls is done here, untimed.

    Raises UnavailableError if this commit or machine lacks it.
    """
    if workload.dtype == "bf16" and workload.device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        raise UnavailableError("bf16 wants a GPU of compute capability 8.0 or newer")
    return benchmark_class(workload.source)().prepare(workload, implementation, inputs)
