"""The references against PyTorch's own operators and against the definition, element by element."""

import math

import pytest
import torch

from perf_suite.benchmarks.ffn_gelu import ffn_gelu
from perf_suite.benchmarks.flash_attention import flash_attention
from perf_suite.benchmarks.flash_attention_backward import flash_attention_backward, output_and_lse
from perf_suite.benchmarks.flash_attention_varlen import flash_attention_varlen
from perf_suite.benchmarks.int4_linear import dequantised, int4_linear
from perf_suite.benchmarks.int8_linear import int8_linear, quantised
from perf_suite.benchmarks.int8_weight_linear import int8_weight_linear
from perf_suite.benchmarks.layer_norm import layer_norm
from perf_suite.benchmarks.linear import linear
from perf_suite.benchmarks.linear_gelu import linear_gelu
from perf_suite.benchmarks.linear_silu import linear_silu
from perf_suite.benchmarks.rms_norm import add_rms_norm, rms_norm
from perf_suite.benchmarks.rope import rope
from perf_suite.benchmarks.swiglu import swiglu
from perf_suite.benchmarks.transformer_layer import transformer_layer

GENERATOR = torch.Generator().manual_seed(7)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def test_attention_equals_sdpa_with_the_same_mask():
    q, k, v = normal(2, 4, 5, 16), normal(2, 2, 9, 16), normal(2, 2, 9, 16)
    mask = torch.ones(5, 9, dtype=torch.bool).tril(4)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    torch.testing.assert_close(flash_attention(q, k, v, causal=True), expected)


def test_attention_rows_that_see_no_key_are_zeros_and_only_those():
    q, k, v = normal(1, 1, 5, 8), normal(1, 1, 3, 8), normal(1, 1, 3, 8)
    out = flash_attention(q, k, v, causal=True)
    assert out[0, 0, :2].count_nonzero() == 0
    torch.testing.assert_close(out[0, 0, 2], v[0, 0, 0])


def test_attention_with_a_bias_equals_sdpa_and_what_it_hides_altogether_is_zero():
    q, k, v, bias = normal(2, 4, 5, 16), normal(2, 2, 9, 16), normal(2, 2, 9, 16), normal(4, 5, 9)
    bias[:, 0, 3] = -math.inf
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias.expand(2, 4, 5, 9), enable_gqa=True
    )
    torch.testing.assert_close(flash_attention(q, k, v, bias=bias), expected)
    bias[:, 2] = -math.inf
    assert flash_attention(q, k, v, bias=bias)[:, :, 2].count_nonzero() == 0


def test_packed_attention_is_that_of_each_sequence():
    q, k, v = normal(12, 4, 16), normal(12, 2, 16), normal(12, 2, 16)
    out = flash_attention_varlen(q, k, v, (5, 0, 7), (5, 0, 7), causal=True)
    for rows in (slice(0, 5), slice(5, 12)):
        alone = (x[rows].transpose(0, 1)[None] for x in (q, k, v))
        torch.testing.assert_close(out[rows], flash_attention(*alone, causal=True)[0].transpose(0, 1))


def test_attention_lets_a_nan_through():
    q, k, v = normal(1, 1, 4, 8), normal(1, 1, 4, 8), normal(1, 1, 4, 8)
    q[0, 0, 1, 3] = math.nan
    assert flash_attention(q, k, v)[0, 0, 1].isnan().all()


def test_attention_gradients_equal_autograds_through_sdpa():
    q, k, v = (x.requires_grad_() for x in (normal(2, 4, 5, 16), normal(2, 2, 9, 16), normal(2, 2, 9, 16)))
    mask = torch.ones(5, 9, dtype=torch.bool).tril(4).triu(2)  # causal, a window of 3
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    d_out = normal(*wanted.shape)
    gradients = torch.autograd.grad(wanted, (q, k, v), d_out)
    tensors = tuple(x.detach() for x in (q, k, v))
    out, lse = output_and_lse(*tensors, True, 3)
    torch.testing.assert_close(out, wanted.detach())
    for found, expected in zip(flash_attention_backward(d_out, *tensors, out, lse, True, 3), gradients, strict=True):
        torch.testing.assert_close(found, expected)


def test_rope_turns_each_pair_as_a_complex_number():
    x, angles = normal(1, 2, 3, 8), normal(3, 4)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.complex(x[..., 0::2], x[..., 1::2]) * turns
    expected = torch.view_as_real(pairs).flatten(-2)
    torch.testing.assert_close(rope(x, angles.cos(), angles.sin(), interleaved=True), expected)
    halves = torch.complex(x[..., :4], x[..., 4:]) * turns
    expected = torch.cat((halves.real, halves.imag), dim=-1)
    torch.testing.assert_close(rope(x, angles.cos(), angles.sin()), expected)


def test_int4_weights_are_nibble_minus_eight_times_scale_low_nibble_first():
    packed = torch.tensor([[0x80, 0x1F]], dtype=torch.uint8)
    scales = torch.tensor([[2.0, 0.5]])
    weight = dequantised(packed, scales, group_size=2)
    assert weight.tolist() == [[-16.0, 0.0, 3.5, -3.5]]
    assert int4_linear(torch.ones(1, 4), packed, scales, group_size=2).item() == -16.0


def test_norms_equal_pytorchs_own():
    x, weight, bias = normal(3, 7), normal(7), normal(7)
    torch.testing.assert_close(rms_norm(x, weight), torch.nn.functional.rms_norm(x, (7,), weight, 1e-6))
    torch.testing.assert_close(layer_norm(x, weight, bias), torch.nn.functional.layer_norm(x, (7,), weight, bias, 1e-5))


def test_the_residual_that_is_normalised_is_the_rounded_one():
    x = torch.tensor([[1.0, 3.0]], dtype=torch.float16)
    out, total = add_rms_norm(x, torch.full_like(x, 2.0**-12), torch.ones(2, dtype=torch.float16))
    assert torch.equal(total, x.double())
    assert torch.equal(out, rms_norm(x, torch.ones(2)))


def test_int8_tokens_have_their_largest_magnitude_at_127():
    values, scales = quantised(torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]))
    assert values.tolist() == [[64, -127, 32], [0, 0, 0]]
    torch.testing.assert_close(scales[0].item(), 2 / 127, rtol=1e-6, atol=0)


def test_int8_weights_are_bytes_times_their_outputs_scale():
    weight, scales = torch.tensor([[3, -4, 99]], dtype=torch.int8), torch.tensor([0.5])
    x, bias = torch.tensor([[127.0, 64.0]]), torch.tensor([1.0])
    expected = 0.5 * (3 * 127 - 4 * 64) + 1
    assert int8_linear(x, weight, scales, bias).item() == expected
    assert int8_weight_linear(x, weight, scales, bias).item() == expected


def test_fused_linear_layers_equal_pytorchs_own():
    x, weight, up, bias = normal(3, 5), normal(4, 5), normal(4, 5), normal(4)
    layer = torch.nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(linear(x, weight, bias), layer)
    for approximate in ("none", "tanh"):
        expected = torch.nn.functional.gelu(layer, approximate=approximate)
        torch.testing.assert_close(linear_gelu(x, weight, bias, approximate), expected)
    expected = torch.nn.functional.silu(layer) * torch.nn.functional.linear(x, up)
    torch.testing.assert_close(swiglu(x, weight, up, bias), expected)


def test_linear_silu_and_ffn_gelu_are_pytorchs_own_in_float64():
    x, weight, bias, down, down_bias = normal(3, 8), normal(16, 8), normal(16), normal(8, 16), normal(8)
    product = torch.nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(linear_silu(x, weight, bias), torch.nn.functional.silu(product))
    for approximate in ("none", "tanh"):
        expected = torch.nn.functional.linear(
            torch.nn.functional.gelu(product, approximate=approximate), down, down_bias
        )
        torch.testing.assert_close(ffn_gelu(x, weight, bias, down, down_bias, approximate), expected)


def test_a_layer_is_transformers_own_and_a_token_over_a_cache_is_the_last_of_a_prompt():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, attn_implementation="sdpa"
    )
    layer = LlamaDecoderLayer(config, 0).double().eval()
    x = normal(2, 7, 64)
    cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(7).unsqueeze(0))
    half_cos, half_sin = cos[0, :, :8], sin[0, :, :8]
    weights, options = layer.state_dict(), {"heads": 4, "eps": config.rms_norm_eps}
    nothing = normal(2, 2, 0, 16)
    with torch.no_grad():
        expected = layer(x, position_embeddings=(cos, sin), attention_mask=None)
    out = transformer_layer(x, weights, half_cos, half_sin, nothing, nothing, **options)
    # transformers works out norms and angles in float32.
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)

    normed = rms_norm(x[:, :6], weights["input_layernorm.weight"], config.rms_norm_eps)
    keys, values = (
        (normed @ weights[f"self_attn.{name}_proj.weight"].T).unflatten(-1, (2, 16)).transpose(1, 2) for name in "kv"
    )
    keys = rope(keys, half_cos[:6], half_sin[:6])
    last = transformer_layer(x[:, 6:], weights, half_cos[6:], half_sin[6:], keys, values, **options)
    torch.testing.assert_close(last, out[:, 6:])
