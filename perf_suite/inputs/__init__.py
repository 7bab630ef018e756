"""Random inputs of each operator, seeded; never zeros, which draw less power and run faster."""

import importlib

import torch

from warpbench.inputs import Inputs
from warpbench.workload import Workload

_TORCH_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def make_inputs(workload: Workload, generator: torch.Generator) -> Inputs:
    """Inputs of a workload on the generator's device, drawn from it."""
    module = importlib.import_module(f"{__name__}.{workload.operator}")
    inputs: Inputs = module.make(workload, generator, _TORCH_DTYPES[workload.dtype])
    return inputs
