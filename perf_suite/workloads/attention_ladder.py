"""What the steps of the attention ladder have in common: flash_attention's rows under another operator's name."""

from dataclasses import replace

from warpbench.workload import Workload

_IMPLEMENTATIONS = {"cuda": ("warpwatch", "triton", "sdpa", "eager"), "cpu": ("warpwatch", "sdpa", "eager")}


def ladder_workload(operator: str, row: Workload) -> Workload:
    """The row with the operator's name. The cost stays the problem's: a step that moves more bytes shows as slower."""
    return replace(row, operator=operator, implementations=_IMPLEMENTATIONS[row.device], energy_of=())
