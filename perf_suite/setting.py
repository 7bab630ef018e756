"""A workload set up to be measured: inputs on its device, and two questions with their answers."""

from dataclasses import dataclass

import torch

from . import gate
from .inputs import Inputs, make_inputs
from .workloads.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all implementations of a workload share."""

    workload: Workload
    inputs: Inputs
    questions: tuple[gate.Question, ...]


def set_up(workload: Workload) -> Setting:
    """Two sets of activations over one set of weights, each with its reference, of the workload's seed."""
    generator = torch.Generator(workload.device).manual_seed(workload.seed)
    inputs = make_inputs(workload, generator)
    first = gate.ask(inputs)
    for tensor in inputs.activations():
        tensor.normal_(generator=generator)
    questions = (first, gate.ask(inputs))
    if workload.device == "cuda":
        torch.cuda.synchronize()  # what follows works on streams of its own
    return Setting(workload=workload, inputs=inputs, questions=questions)
