"""What a module does about gradients where its operator has none."""

from __future__ import annotations

import torch


def refuse_gradient(out: torch.Tensor, module: str, instead: str) -> torch.Tensor:
    """`out`, through which backward raises RuntimeError with what to do `instead`.

    PyTorch itself would warn and leave the inputs without a gradient. Calling a module outside torch.no_grad() stays
    allowed: a model's parameters require a gradient by default, also where nobody asks for one.
    """
    if out.requires_grad and not torch.compiler.is_compiling():

        def refuse(_gradient: torch.Tensor) -> None:
            raise RuntimeError(f"{module}: its kernel has no gradient; {instead}")

        out.register_hook(refuse)
    return out
