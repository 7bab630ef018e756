"""torch, imported at its first use: `from warpbench.lazy import torch`.

asv imports the benchmark modules in processes that measure nothing, where importing torch would take seconds.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["load", "torch"]


class _Lazy:
    """Stands for a module until it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


if TYPE_CHECKING:
    import torch
else:
    torch = _Lazy("torch")


def load() -> None:
    """Put the real modules into their place: torch.compile traces a function's globals and knows no stand-in."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is _Lazy:  # isinstance would look into torch's own lazy modules, which warn
                setattr(module, name, importlib.import_module(value._name))
