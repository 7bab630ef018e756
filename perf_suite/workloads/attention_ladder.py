"""What the steps of the attention ladder have in common: flash_attention's rows under another operator's name."""

from dataclasses import replace

from .workload import Workload

_IMPLEMENTATIONS = ("warpwatch", "sdpa", "eager")  # no Triton twin: the ladder compares CUDA with CUDA


def ladder_workload(operator: str, row: Workload) -> Workload:
    """The row with the operator's name. The cost stays the problem's: a step that moves more bytes shows as slower."""
    return replace(row, operator=operator, implementations=_IMPLEMENTATIONS, energy_of=())
