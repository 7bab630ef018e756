"""The torch.compile baseline: the eager formula, compiled anew for one workload."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

Formula = TypeVar("Formula", bound=Callable[..., Any])
_kept: tuple[object, Callable[..., Any]] | None = None


def compiled(formula: Formula, *examples: torch.Tensor) -> Formula:
    """A whole graph, static shapes; the same one as long as formula, shapes and dtypes stay.

    Earlier workloads' graphs are dropped, or a recompile limit is met.
    """
    global _kept
    key = formula, tuple((tuple(example.shape), example.dtype) for example in examples)
    if _kept is None or _kept[0] != key:
        torch.compiler.reset()
        _kept = key, torch.compile(formula, fullgraph=True, dynamic=False)
    return cast(Formula, _kept[1])
