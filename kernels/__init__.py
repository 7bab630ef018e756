"""warpwatch's kernels as PyTorch operators. torch and the extension are loaded on the first access to an operator."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from typing import Any

from .extension import extension_path as extension_path


@cache
def _homes() -> dict[str, str]:
    """Map each public function of operators/ to the module that defines it, without importing torch."""
    homes = {}
    for path in sorted(Path(__file__).with_name("operators").glob("[!_]*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                homes[node.name] = path.stem
    return homes


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name.startswith("_") or name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.operators.{_homes()[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(["extension_path", *_homes()])
