"""The torch.compile baseline: the eager formula, compiled anew for one workload."""

from collections.abc import Callable

import torch


def compiled(formula: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A whole graph, static shapes; earlier workloads' graphs are dropped, or a recompile limit is met."""
    torch.compiler.reset()
    result: Callable[..., torch.Tensor] = torch.compile(formula, fullgraph=True, dynamic=False)
    return result
