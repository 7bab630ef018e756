"""What a timed call returns, one tensor or several, as a backward pass does; and what it is held to."""

from dataclasses import dataclass
from typing import TypeVar

import torch

Output = torch.Tensor | tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a tensor is to be element by element, where rounding to codes has a rule: within `slack` of `values`."""

    values: torch.Tensor  # float64
    slack: torch.Tensor  # float64, broadcast to values; 0 where nothing may differ


Expected = Output | tuple[torch.Tensor | Bounds, ...] | None  # None: no reference is known
Part = TypeVar("Part")


def parts(output: torch.Tensor | tuple[Part, ...]) -> tuple[torch.Tensor | Part, ...]:
    """The tensors of an output, one or several; of an answer its tensors and bounds."""
    return (output,) if isinstance(output, torch.Tensor) else output
