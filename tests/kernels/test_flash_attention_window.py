"""flash_attention with a sliding window, and the log-sum-exp next to its output: against float64, on both devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch import kernels
from warpwatch.kernels.operators.flash_attention import flash_attention_with_lse

from .test_flash_attention import DTYPES, Tensors, assert_attends, inputs

# Windows of one key, below, at and above a tile of 16, 32 or 64 keys, and as long as everything.
WINDOWS = [1, 15, 16, 31, 33, 64, 65, 128, 299, 300, 1 << 40]


def log_sum_exp(q: torch.Tensor, k: torch.Tensor, *, causal: bool = False, window: int | None = None) -> torch.Tensor:
    """Its definition, in float64."""
    group, (seq_q, seq_kv) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    scores = q.double() @ k.double().repeat_interleave(group, dim=1).transpose(-2, -1) * q.shape[-1] ** -0.5
    seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(seq_kv - seq_q)
    if window is not None:
        seen = seen.triu(seq_kv - seq_q + 1 - window)
    return scores.masked_fill(~seen, -torch.inf).logsumexp(dim=-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS)
def test_each_query_sees_its_newest_keys(window: int, dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (300, 300), heads=(4, 2), batch=1)
    out = kernels.flash_attention(q, k, v, causal=True, window=window)
    assert_attends(out, reference(q, k, v, causal=True, window=window))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("seq", [(1, 200), (37, 200), (200, 37), (129, 130), (1000, 1000)], ids=str)
def test_a_window_on_unequal_lengths(seq: tuple[int, int], head_dim: int, dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, seq, head_dim=head_dim, batch=1)
    out = kernels.flash_attention(q, k, v, causal=True, window=50)
    assert_attends(out, reference(q, k, v, causal=True, window=50))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_keys_older_than_every_window_are_not_read(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (20, 500))
    k[:, :, :256], v[:, :, :256] = torch.nan, torch.nan  # whole tiles; the oldest key seen is 500 - 20 + 1 - 70
    out = kernels.flash_attention(q, k, v, causal=True, window=70)
    assert_attends(out, reference(q, k[:, :, 300:], v[:, :, 300:], causal=True, window=70))


def test_a_window_as_long_as_the_keys_changes_no_bit(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (100, 130))
    whole = kernels.flash_attention(q, k, v, causal=True)
    assert torch.equal(kernels.flash_attention(q, k, v, causal=True, window=130), whole)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 40}], ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", [(1, 1), (70, 90), (130, 65), (257, 257)], ids=str)
def test_log_sum_exp_is_that_of_the_scores(
    seq: tuple[int, int], dtype: torch.dtype, head_dim: int, options: dict[str, Any], device: str
) -> None:
    q, k, v = inputs(device, dtype, seq, head_dim=head_dim, heads=(4, 2))
    out, lse = flash_attention_with_lse(q, k, v, **options)
    assert torch.equal(out, kernels.flash_attention(q, k, v, **options))
    assert lse.dtype == torch.float64
    torch.testing.assert_close(lse.double(), log_sum_exp(q, k, **options), rtol=1e-5, atol=1e-5)


def test_log_sum_exp_over_no_key_is_minus_infinity(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 0))
    assert (flash_attention_with_lse(q, k, v)[1] == -torch.inf).all()


@pytest.mark.parametrize("window", [1, 20, 64, 90])
@pytest.mark.parametrize(
    ("head_dim", "dtype"), [(64, torch.float16), (96, torch.float16), (96, torch.float32)], ids=str
)
@pytest.mark.parametrize("seq", [(90, 90), (3, 90), (90, 70)], ids=str)
def test_triton_twin_agrees_in_a_window(
    seq: tuple[int, int],
    head_dim: int,
    dtype: torch.dtype,
    window: int,
    device: str,
    twin: Callable[..., Callable[..., Any]],
) -> None:
    _needs_an_interpreter_that_counts(device)
    q, k, v = inputs(device, dtype, seq, head_dim=head_dim, heads=(4, 2), batch=1)
    out, lse = twin("flash_attention", "flash_attention_with_lse")(q, k, v, causal=True, window=window)
    assert_attends(out, reference(q, k, v, causal=True, window=window))
    torch.testing.assert_close(lse.double(), log_sum_exp(q, k, causal=True, window=window), rtol=1e-5, atol=1e-5)


def test_triton_twin_says_what_a_window_needs(device: str, twin: Callable[..., Callable[..., Any]]) -> None:
    q, k, v = inputs(device, torch.float16, (5, 5))
    with pytest.raises(RuntimeError, match="window must be positive and needs causal=True, got 3 with causal=False"):
        twin("flash_attention")(q, k, v, window=3)


def test_a_window_compiles_without_graph_breaks(device: str) -> None:
    @torch.compile(fullgraph=True)
    def doubled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return kernels.flash_attention(q, k, v, causal=True, window=5) * 2

    q, k, v = inputs(device, torch.float16, (9, 17))
    assert torch.equal(doubled(q, k, v), kernels.flash_attention(q, k, v, causal=True, window=5) * 2)


def test_a_window_over_a_long_sequence_agrees_with_pytorch(cuda: str) -> None:
    q, k, v = _long(cuda)
    seen = torch.ones(4097, 4097, dtype=torch.bool, device=cuda).tril().triu(-999)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), attn_mask=seen, enable_gqa=True
    )
    assert_attends(kernels.flash_attention(q, k, v, causal=True, window=1000), expected.double())


def _long(device: str) -> Tensors:
    return inputs(device, torch.float16, (4097, 4097), heads=(20, 10), head_dim=128, batch=1)


def _needs_an_interpreter_that_counts(device: str) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
