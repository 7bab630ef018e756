"""The torch.compile baseline: a formula compiled anew for each workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from .lazy import torch

Formula = TypeVar("Formula", bound=Callable[..., Any])
_kept: tuple[object, Callable[..., Any]] | None = None


def compiled(formula: Formula, *examples: torch.Tensor) -> Formula:
    """torch.compile of a formula: a whole graph of static shapes, kept as long as formula, shapes and dtypes stay.

    Graphs of earlier workloads are dropped, since they would count towards torch's recompile limit.
    """
    global _kept
    key = formula, tuple((tuple(example.shape), example.dtype) for example in examples)
    if _kept is None or _kept[0] != key:
        torch.compiler.reset()
        _kept = key, torch.compile(formula, fullgraph=True, dynamic=False)
    return cast(Formula, _kept[1])
