"""Handling of gradients in modules whose operator has none."""

from __future__ import annotations

import torch


def refuse_gradient(out: torch.Tensor, module: str, instead: str) -> torch.Tensor:
    """`out`, except that backward through it raises RuntimeError with the advice `instead`.

    PyTorch itself would warn and leave the inputs without a gradient. Calling a module outside torch.no_grad() stays
    allowed: a model's parameters require gradients by default.
    """
    if out.requires_grad and not torch.compiler.is_compiling():

        def refuse(_gradient: torch.Tensor) -> None:
            raise RuntimeError(f"{module}: its kernel has no gradient; {instead}")

        out.register_hook(refuse)
    return out
