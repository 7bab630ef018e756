"""Linear, LinearGELU, LinearSiLU, SwiGLU, FusedFFN and TransformerLayer against float64 and transformers' layer."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from warpwatch.kernels.modules import (
    FusedFFN,
    KVCache,
    Linear,
    LinearGELU,
    LinearSiLU,
    QuantizedLinear,
    SelfAttention,
    SwiGLU,
    TransformerLayer,
    replace_linear_with_quantized,
)

# Products, activations and results are rounded a few times on the way.
TOLERANCE = {torch.float16: 4e-3, torch.float32: 1e-5}


def dtype_on(device: str) -> torch.dtype:
    return torch.float16 if device == "cuda" else torch.float32


def exact(made: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """In float64, by PyTorch."""
    m, x = copy.deepcopy(made).double(), x.double()
    if isinstance(made, SwiGLU):
        return functional.silu(m.gate_proj(x)) * m.up_proj(x)
    if isinstance(made, FusedFFN):
        return m.down_proj(functional.gelu(m.up_proj(x), approximate=m.approximate))
    product = functional.linear(x, m.weight, m.bias)
    return (
        functional.silu(product)
        if isinstance(made, LinearSiLU)
        else functional.gelu(product, approximate=m.approximate)
    )


def assert_near(out: torch.Tensor, expected: torch.Tensor) -> None:
    error = (out.double() - expected.double()).norm() / expected.double().norm()
    assert error < TOLERANCE[out.dtype]


MADE: dict[str, Callable[..., nn.Module]] = {
    "LinearGELU": lambda **kw: LinearGELU(128, 96, **kw),
    "LinearGELU, tanh": lambda **kw: LinearGELU(128, 96, approximate="tanh", **kw),
    "LinearSiLU": lambda **kw: LinearSiLU(128, 96, **kw),
    "SwiGLU": lambda **kw: SwiGLU(128, 96, **kw),
    "SwiGLU with biases": lambda **kw: SwiGLU(128, 96, True, **kw),
    "FusedFFN": lambda **kw: FusedFFN(128, 256, **kw),
    "FusedFFN, tanh": lambda **kw: FusedFFN(128, 256, False, approximate="tanh", **kw),
}


@pytest.mark.parametrize("name", MADE)
def test_computes_what_pytorch_does(name: str, device: str) -> None:
    made = MADE[name](dtype=dtype_on(device), device=device)
    x = torch.randn(2, 5, 128, dtype=dtype_on(device), device=device)
    with torch.no_grad():
        assert_near(made(x), exact(made, x))
        again = MADE[name](dtype=dtype_on(device), device=device)
        again.load_state_dict(made.state_dict())
        assert torch.equal(again(x), made(x))
        assert_near(torch.compile(made, fullgraph=True)(x), exact(made, x))


@pytest.mark.parametrize("name", MADE)
def test_backward_is_refused_with_a_sentence(name: str, device: str) -> None:
    made = MADE[name](dtype=dtype_on(device), device=device)
    out = made(torch.randn(2, 128, dtype=dtype_on(device), device=device))
    with pytest.raises(RuntimeError, match=f"{type(made).__name__}: its kernel has no gradient"):
        out.sum().backward()


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("trained", ["weight", "bias", "x"])
def test_a_linear_layer_is_pytorchs_with_its_gradients(trained: str, rows: int, device: str) -> None:
    made = Linear(128, 96, dtype=dtype_on(device), device=device).requires_grad_(False)
    given = {"x": torch.randn(rows, 128, dtype=dtype_on(device), device=device), **dict(made.named_parameters())}
    assert_near(made(given["x"]), exact_linear(given))
    given[trained].requires_grad_()
    made(given["x"]).sum().backward()
    expected = given[trained].detach().double().requires_grad_()
    exact_linear({**given, trained: expected}).sum().backward()
    assert given[trained].grad is not None
    assert expected.grad is not None
    assert_near(given[trained].grad, expected.grad)


def test_a_linear_layer_takes_what_pytorchs_does(device: str) -> None:
    made = Linear(128, 96, device=device).requires_grad_(False)
    x = torch.randn(3, 128, device=device)
    expected = functional.linear(x, made.weight, made.bias)
    assert_near(made(x.t().contiguous().t()), expected)
    assert torch.equal(made.double()(x.double()), functional.linear(x.double(), made.weight, made.bias))
    made.float()
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(made(x.bfloat16()), functional.linear(x.bfloat16(), made.weight, made.bias))


def exact_linear(given: dict[str, torch.Tensor]) -> torch.Tensor:
    return functional.linear(*(given[name].double() for name in ("x", "weight", "bias")))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["SwiGLU", "FusedFFN"])
def test_layers_may_be_quantized(name: str, bits: int, device: str) -> None:
    made = MADE[name](dtype=dtype_on(device), device=device)
    plain = copy.deepcopy(made)
    replace_linear_with_quantized(made, bits)
    for path, layer in made.named_modules():
        if isinstance(layer, QuantizedLinear):
            plain.get_submodule(path).weight.data.copy_(layer.dequantize())
    x = torch.randn(2, 5, 128, dtype=dtype_on(device), device=device)
    with torch.no_grad():
        error = (made(x).double() - exact(plain, x)).norm() / exact(plain, x).norm()
    assert error < (5e-3 if bits == 4 else 3e-2)  # of eight bits x is rounded too


def positions(begin: int, end: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    turns = torch.arange(begin, end, device=device)[:, None] * 10000.0 ** (-torch.arange(32, device=device) / 32)
    return turns.cos(), turns.sin()


def test_a_layer_is_that_of_transformers(device: str) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    config = LlamaConfig(hidden_size=256, intermediate_size=384, num_attention_heads=4, num_key_value_heads=2)
    config._attn_implementation = "sdpa"
    theirs = LlamaDecoderLayer(config, 0).to(device, dtype_on(device)).eval()
    ours = TransformerLayer(256, 384, 4, 2, eps=config.rms_norm_eps, dtype=dtype_on(device), device=device)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 17, 256, dtype=dtype_on(device), device=device)
    cos, sin = positions(0, 17, device)
    wide = tuple(torch.cat((table, table), dim=-1)[None].double() for table in (cos, sin))
    with torch.no_grad():
        expected = copy.deepcopy(theirs).double()(x.double(), position_embeddings=wide)
        assert_near(ours(x, cos, sin), expected)
        # The same in steps, with a cache.
        cache = KVCache(2, 2, 20, 64, dtype=dtype_on(device), device=device)
        steps = [
            ours(x[:, begin:end], *positions(begin, end, device), cache) for begin, end in ((0, 11), (11, 12), (12, 17))
        ]
        assert_near(torch.cat(steps, dim=1), expected)


def test_heads_that_do_not_fit_are_reported() -> None:
    with pytest.raises(ValueError, match="got hidden 256, heads 6, heads_kv 4"):
        SelfAttention(256, 6, 4)
