"""warpwatch's kernels as PyTorch operators. torch and the extension are loaded by the first operator asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .extension import extension_path

if TYPE_CHECKING:
    from .operators.flash_attention import flash_attention
    from .operators.int4_linear import int4_linear, quantize_int4
    from .operators.layer_norm import add_layer_norm, layer_norm
    from .operators.rms_norm import add_rms_norm, rms_norm
    from .operators.rope import rope

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "extension_path",
    "flash_attention",
    "int4_linear",
    "layer_norm",
    "quantize_int4",
    "rms_norm",
    "rope",
]

_HOME = {  # public name -> the module it lives in
    "add_layer_norm": "layer_norm",
    "add_rms_norm": "rms_norm",
    "flash_attention": "flash_attention",
    "int4_linear": "int4_linear",
    "layer_norm": "layer_norm",
    "quantize_int4": "int4_linear",
    "rms_norm": "rms_norm",
    "rope": "rope",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.operators.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
