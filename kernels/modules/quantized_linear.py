"""Linear layer with a quantized weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .gradient import refuse_gradient
from .weight_formats import weight_format


class QuantizedLinear(nn.Module):
    """x (..., in_features) times the transpose of a quantized weight, plus the bias; for inference.

    bits=4 (W4A16): group_size 64 or 128 (the default) consecutive inputs share a scale; group_size divides in_features.
    With zero_points each group also has a zero, for groups that are not symmetric about 0. x has the layer's dtype:
    float16, bfloat16 (GPUs of compute capability 8.0 and newer, and CPU) or float32 (CPU); the bias is added to the
    rounded product. bits=8 (W8A8): one scale per output; x, in any of the three dtypes, is quantized per token. With
    weight_only (W8A16) x is not quantized, and has a dtype as for 4 bits. Quantized tensors and bias are buffers:
    saved, loaded, moved and cast with the model, but a cast does not change integers and the float32 scales of 8 bits.
    A new layer has no weight yet: quantize_from_float or load_state_dict sets it.
    Raises ValueError for unsupported features, bits or group size, RuntimeError when called without a weight and in
    backward.
    """

    bias: torch.Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        bits: int = 4,
        group_size: int | None = None,
        zero_points: bool = False,
        weight_only: bool = False,
        dtype: torch.dtype = torch.float16,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.bits = bits
        self.dtype = dtype  # of x and bias
        self._format = weight_format(bits, group_size, zero_points=zero_points, weight_only=weight_only)
        tensors = self._format.empty(out_features, in_features, dtype, device)
        self._names = tuple(tensors)
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.register_buffer("bias", torch.zeros(out_features, dtype=dtype, device=device) if bias else None)
        self._has_weight = False

    @torch.no_grad()
    def quantize_from_float(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> QuantizedLinear:
        """Quantize weight (out_features, in_features), and set the bias if the layer has one; returns the layer.

        The weight is quantized on its own device, then moved to the layer's device and dtype.
        Raises ValueError for another shape or dtype, for a non-finite value, for scales beyond the range of the layer's
        dtype, and for a missing or superfluous bias.
        """
        if tuple(weight.shape) != (self.out_features, self.in_features):
            raise ValueError(
                f"QuantizedLinear: weight must have shape [{self.out_features}, {self.in_features}] "
                f"(out_features, in_features), got {list(weight.shape)}"
            )
        if (bias is None) != (self.bias is None):
            has, came = ("no bias", "came with one") if self.bias is None else ("a bias", "came without one")
            raise ValueError(f"QuantizedLinear: the layer has {has}, the weight {came}")
        if bias is not None and tuple(bias.shape) != (self.out_features,):
            raise ValueError(f"QuantizedLinear: bias must have shape [{self.out_features}], got {list(bias.shape)}")
        # First converted to the layer's dtype, so that values are rounded against the scale that the kernel will read.
        for name, tensor in self._format.quantize(weight.detach().to(self.dtype)).items():
            self.get_buffer(name).copy_(tensor)
        if bias is not None and self.bias is not None:
            self.bias.copy_(bias)
        self._has_weight = True
        return self

    def dequantize(self) -> torch.Tensor:
        """The dequantized weight (out_features, in_features), as a new tensor."""
        self._want_weight()
        return self._format.dequantize(self._tensors(), self.in_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A new tensor (..., out_features) of x's dtype."""
        self._want_weight()
        out = self._format.linear(x, self._tensors(), self.bias)
        return refuse_gradient(out, "QuantizedLinear", "quantize after training, or train the float layer")

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"bits={self.bits}, format={self._format}"
        )

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {name: self._buffers[name] for name in self._names}  # type: ignore[misc]  # none of them is None

    def _want_weight(self) -> None:
        if not self._has_weight:
            raise RuntimeError("QuantizedLinear: no weight yet; call quantize_from_float or load_state_dict first")

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *arguments: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *arguments)
        self._has_weight = self._has_weight or all(prefix + name in state_dict for name in self._names)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> QuantizedLinear:
        before = self._tensors()
        super()._apply(fn, recurse)
        for name in self._format.always_float32:
            after = self.get_buffer(name)
            if after.dtype != torch.float32:
                self._buffers[name] = before[name].to(after.device)
        # A probe: fn's target dtype shows on a floating-point tensor, whether or not the layer has one to cast.
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        for name, after in self._tensors().items():
            if after.dtype != before[name].dtype and self._has_weight and not after.is_meta:
                _want_scales_kept(before[name], after)
        return self


def _want_scales_kept(before: torch.Tensor, after: torch.Tensor) -> None:
    lost = ~after.isfinite() | ((after == 0) & (before != 0).to(after.device))
    if bool(lost.any()):
        raise ValueError(
            f"QuantizedLinear: {after.dtype} does not hold the scales, which lie between "
            f"{before.min().item():g} and {before.max().item():g}"
        )
