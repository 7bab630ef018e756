"""How the implementations reach the commit under test, which may be older than this file, and libraries of others."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from warpbench import UnavailableError
from warpbench.lazy import torch


def warpwatch_operator(name: str) -> Callable[..., torch.Tensor]:
    """`warpwatch.kernels.<name>`. Raises UnavailableError if the commit has no such operator."""
    try:
        kernels = importlib.import_module("warpwatch.kernels")
        if kernels.extension_path() is None:
            raise UnavailableError(f"the kernels are not built next to {kernels.__file__}")
        operator: Callable[..., torch.Tensor] | None = getattr(kernels, name, None)
    except ModuleNotFoundError as missing:
        raise UnavailableError(f"this commit installs no warpwatch.kernels.{name} ({missing})") from missing
    _refuse_another_commit(Path(kernels.__file__ or ""))
    if operator is None:
        raise UnavailableError(f"warpwatch.kernels of this commit has no operator {name}")
    return operator


def triton_operator(name: str, function: str | None = None) -> Callable[..., torch.Tensor]:
    """`warpwatch.kernels.triton.<name>.<function>`, by default of the same name.

    Raises UnavailableError where Triton, the module or the function is missing.
    """
    if importlib.util.find_spec("triton") is None:
        raise UnavailableError("Triton is not installed here")
    try:
        twin = importlib.import_module(f"warpwatch.kernels.triton.{name}")
    except ModuleNotFoundError as missing:
        raise UnavailableError(f"this commit has no Triton twin of {name} ({missing})") from missing
    _refuse_another_commit(Path(twin.__file__ or ""))
    operator: Callable[..., torch.Tensor] | None = getattr(twin, function or name, None)
    if operator is None:
        raise UnavailableError(f"the Triton twin {name} of this commit has no {function or name}")
    return operator


def _refuse_another_commit(imported: Path) -> None:
    """In an environment that asv built, only that environment's own kernels may be measured."""
    environment = os.environ.get("ASV_ENV_DIR")
    if environment and not imported.resolve().is_relative_to(Path(environment).resolve()):
        raise UnavailableError(
            f"warpwatch.kernels is imported from {imported}, not from the environment {environment} that asv built"
        )


def library(distribution: str) -> str:
    """Name and version of an installed distribution, recorded as the backend of its measurements."""
    return f"{distribution} {importlib.metadata.version(distribution)}"
