"""A workload set up to be measured: inputs on its device, and two test vectors.

On a GPU the inputs lie in several places. Where the driver puts an allocation decides which memory channels and which
half of the L2 its pages fall to, drawn anew in each process: that moved kernels that read weights of tens of MB by up
to 2 % between processes (H200). Timing calls on eight copies in turn averages over it.
"""

import copy
from dataclasses import dataclass

import torch

from . import gate
from .inputs import Inputs
from .operators import draw_again, make_inputs
from .workload import Workload

_PLACES = 8
_SHARE_OF_MEMORY = (
    8  # an implementation may keep weights of its own for each copy, four times as large when dequantised
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all implementations of a workload share."""

    workload: Workload
    inputs: Inputs
    copies: tuple[Inputs, ...]  # the inputs, and the same in other places of memory
    vectors: tuple[gate.TestVector, ...]


def set_up(workload: Workload) -> Setting:
    """Two sets of activations over one set of weights, each with its reference, of the workload's seed."""
    generator = torch.Generator(workload.device).manual_seed(workload.seed)
    inputs = make_inputs(workload, generator)
    first = gate.test_vector_of(inputs)
    draw_again(inputs, workload, generator)
    vectors = (first, gate.test_vector_of(inputs))
    copies: tuple[Inputs, ...] = (inputs,)
    if workload.device == "cuda":
        copies += tuple(copy.deepcopy(inputs) for _ in range(_places(workload, inputs) - 1))
        torch.cuda.synchronize()  # what follows works on streams of its own
    return Setting(workload=workload, inputs=inputs, copies=copies, vectors=vectors)


def _places(workload: Workload, inputs: Inputs) -> int:
    """As many as fit, powers of two; one where the memory of a copy is not known."""
    held = max(workload.cost.bytes, sum(tensor.nbytes for tensor in inputs.activations()))
    if not held:
        return 1
    torch.cuda.empty_cache()  # the references' memory is only kept
    free, _ = torch.cuda.mem_get_info()
    places = _PLACES
    while places > 1 and places * _SHARE_OF_MEMORY * held > free:
        places //= 2
    return places
