"""The compiled extension: its path, and its operators as Python functions. Importable without torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_FILE = "_C.abi3.so"
_HOW_TO_BUILD = "run `pip install -e . --no-build-isolation --no-deps` in the checkout (kernels/README.md)"


def extension_path() -> Path | None:
    """The built extension next to this file; None if it has not been built."""
    path = Path(__file__).resolve().parent / _FILE
    return path if path.is_file() else None


def load_operator(name: str, *, result: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """torch.ops.warpwatch.<name>, with the fake implementation for torch.compile and meta tensors.

    `result` takes the arguments by name and returns empty tensors of the right shapes and dtypes. By default each
    result is like the operator's first tensor. An operator without results allocates nothing.

    If the extension is missing, or older than the operator, the returned function raises when it is called: importing
    never fails because of a missing build.
    """
    import torch

    if not _loaded():
        return _refusal(f"{name}: the kernels are not built; {_HOW_TO_BUILD}")
    operator = getattr(torch.ops.warpwatch, name, None)
    if operator is None:
        return _refusal(f"{name}: the extension at {extension_path()} does not have it; {_HOW_TO_BUILD}")
    torch.library.register_fake(f"warpwatch::{name}", _fake(operator.default._schema, result))
    return operator.default


def _fake(schema: Any, result: Callable[..., Any] | None) -> Callable[..., Any]:
    import torch

    from .operators._devices import check_devices

    def fake(*positional: Any, **named: Any) -> Any:
        defaults = {argument.name: argument.default_value for argument in schema.arguments}
        given = {argument.name: value for argument, value in zip(schema.arguments, positional, strict=False)}
        arguments = {**defaults, **given, **named}
        tensors = {key: value for key, value in arguments.items() if isinstance(value, torch.Tensor)}
        check_devices(schema.name.removeprefix("warpwatch::"), **tensors)
        if result is not None:
            return result(**arguments)
        like = next(iter(tensors.values()))
        results = tuple(like.new_empty(like.shape) for _ in schema.returns)
        return results[0] if len(results) == 1 else results or None

    return fake


@cache
def _loaded() -> bool:
    import torch

    path = extension_path()
    if path is None:
        return False
    torch.ops.load_library(str(path))
    return True


def _refusal(sentence: str) -> Callable[..., Any]:
    def refuse(*_arguments: object, **_options: object) -> Any:
        raise RuntimeError(sentence)

    return refuse
