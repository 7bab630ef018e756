"""What a timed call returns: one tensor, or several, as a backward pass does."""

import torch

Output = torch.Tensor | tuple[torch.Tensor, ...]


def parts(output: Output) -> tuple[torch.Tensor, ...]:
    """The tensors of an output, one or several."""
    return (output,) if isinstance(output, torch.Tensor) else output
