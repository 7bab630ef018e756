"""Quantizes a model's linear layers."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import partial

import torch
from torch import nn

from .linear_activation import holds_its_weight
from .quantized_linear import QuantizedLinear


def replace_linear_with_quantized(
    model: nn.Module,
    bits: int = 4,
    *,
    group_size: int | None = None,
    zero_points: bool = False,
    weight_only: bool = False,
    skip: Iterable[str] = ("lm_head",),
) -> nn.Module:
    """Replace each nn.Linear, and each Conv1D of transformers (GPT-2), by a QuantizedLinear; returns the model.

    bits, group_size, zero_points and weight_only: see QuantizedLinear.
    Layer by layer and in place, on each layer's device, so that at most one extra weight is in memory. `skip` names
    modules to leave unchanged with everything in them, by full name ("model.layers.0.mlp") or by its last part, with
    shell wildcards; by default the output layer "lm_head", which most quantizers skip and whose weight is often the
    embedding's. Subclasses of nn.Linear other than modules.Linear stay, since their modules may read the weights. A
    layer used in several places is quantized once. A model that is itself a linear layer is returned as a new one.
    Raises ValueError before any change if a layer's features or dtype cannot be quantized (naming it) or if a name in
    `skip` other than "lm_head" matches nothing; and during the replacement for a non-finite weight.
    """
    patterns = (skip,) if isinstance(skip, str) else tuple(skip)
    _want_matches(model, patterns)
    found = [
        (name, module)
        for name, module in model.named_modules(remove_duplicate=False)
        if _is_linear(module) and not _is_skipped(name, patterns)
    ]
    layer_of = partial(_empty_layer, bits=bits, group_size=group_size, zero_points=zero_points, weight_only=weight_only)
    for name, module in found:
        weight = _weight(module)
        try:
            layer_of(module, device="meta")
        except ValueError as refusal:
            raise ValueError(
                f"replace_linear_with_quantized: {name or 'the model'} {list(weight.shape)} cannot be quantized "
                f"({refusal}); name it in skip or choose another group_size"
            ) from refusal
    done: dict[nn.Module, QuantizedLinear] = {}
    for name, module in found:
        if module not in done:
            done[module] = _quantized(module, layer_of(module))
        if not name:
            return done[module]
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, done[module])
    return model


def _is_linear(module: nn.Module) -> bool:
    return holds_its_weight(module) or _is_conv1d(module)


def _is_conv1d(module: nn.Module) -> bool:
    # A model with a Conv1D has imported transformers; other models must not require it.
    home = sys.modules.get("transformers.pytorch_utils")
    return home is not None and type(module) is home.Conv1D


def _weight(module: nn.Module) -> torch.Tensor:
    """The weight as (out_features, in_features); Conv1D stores it transposed."""
    weight = module.get_parameter("weight")
    return weight.t() if _is_conv1d(module) else weight


def _empty_layer(
    module: nn.Module,
    *,
    bits: int,
    group_size: int | None,
    zero_points: bool,
    weight_only: bool,
    device: torch.device | str | None = None,
) -> QuantizedLinear:
    weight = _weight(module)
    out_features, in_features = weight.shape
    layer = QuantizedLinear(
        in_features,
        out_features,
        bias=module.bias is not None,
        bits=bits,
        group_size=group_size,
        zero_points=zero_points,
        weight_only=weight_only,
        dtype=weight.dtype,
        device=weight.device if device is None else device,
    )
    return layer.train(module.training)


def _quantized(module: nn.Module, layer: QuantizedLinear) -> QuantizedLinear:
    bias = module.bias
    assert bias is None or isinstance(bias, torch.Tensor)
    return layer.quantize_from_float(_weight(module).contiguous(), bias)


def _is_skipped(name: str, patterns: tuple[str, ...]) -> bool:
    parts = name.split(".")
    ancestors = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return any(
        fnmatchcase(each, pattern)
        for pattern in patterns
        for ancestor, part in zip(ancestors, parts, strict=True)
        for each in (ancestor, part)
    )


def _want_matches(model: nn.Module, patterns: tuple[str, ...]) -> None:
    names = [name for name, _ in model.named_modules(remove_duplicate=False) if name]
    for pattern in patterns:
        if pattern != "lm_head" and not any(_is_skipped(name, (pattern,)) for name in names):
            raise ValueError(f"replace_linear_with_quantized: skip names {pattern!r}, and the model has no such module")
