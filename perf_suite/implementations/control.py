"""The controls: the canaries on a GPU, PyTorch's own triad and matmul on the CPU."""

import torch

from ..canaries import launch
from ..inputs.control import MatmulInputs, TriadInputs
from . import Prepared


def canary(inputs: TriadInputs | MatmulInputs) -> Prepared:
    """The fixed kernel of these inputs. Raises UnavailableError where the GPU or the driver API lacks for it."""
    if isinstance(inputs, TriadInputs):
        return _triad(inputs)
    return _matmul(inputs)


def _triad(inputs: TriadInputs) -> Prepared:
    if not inputs.b.is_cuda:
        return Prepared(run=lambda: torch.add(inputs.b, inputs.c, alpha=inputs.scale))
    launch.load()
    return Prepared(run=lambda: launch.triad(inputs.b, inputs.c, inputs.scale))


def _matmul(inputs: MatmulInputs) -> Prepared:
    if not inputs.x.is_cuda:
        return Prepared(run=lambda: torch.nn.functional.linear(inputs.x, inputs.weight))
    launch.load()
    return Prepared(run=lambda: launch.matmul(inputs.x, inputs.weight))
