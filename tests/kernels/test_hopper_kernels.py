"""On Hopper, attention in 16 bits runs in the kernels that are written for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch

from warpbench.launches import capture
from warpwatch import kernels

from .test_flash_attention import inputs

DTYPES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def _on_hopper(cuda: str) -> Iterator[None]:
    pytest.importorskip("cuda.bindings")
    if torch.cuda.get_device_capability() != (9, 0) or "WARPWATCH_COMPUTE_CAPABILITY" in os.environ:
        pytest.skip("no Hopper GPU, or configured to behave as on an older one")
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


def launched(run: Callable[[], object]) -> set[str]:
    run()
    names = capture(run).launched
    assert names is not None
    return set(names)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_batch(dtype: torch.dtype, head_dim: int, causal: bool, cuda: str) -> None:
    q, k, v = inputs(cuda, dtype, (130, 130), head_dim=head_dim)
    assert launched(lambda: kernels.flash_attention(q, k, v, causal=causal)) == {"flash_attention_sm90a_kernel"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_query_a_sequence(dtype: torch.dtype, cuda: str) -> None:
    q, k, v = inputs(cuda, dtype, (1, 2000), heads=(8, 2), head_dim=128)
    found = launched(lambda: kernels.flash_attention(q, k, v))
    assert found == {"decode_attention_sm80_kernel", "decode_attention_combine"}


@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_packed_sequences(head_dim: int, cuda: str) -> None:
    q, k, v = torch.randn(3, 200, 4, head_dim, device=cuda, dtype=torch.float16)
    ends = torch.tensor([0, 70, 200], dtype=torch.int32, device=cuda)
    run = lambda: kernels.flash_attention_varlen(q, k, v, ends, ends, 130, 130)  # noqa: E731
    assert launched(run) == {"flash_attention_sm90a_kernel"}


@pytest.mark.parametrize("head_dim", [64, 96, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype: torch.dtype, head_dim: int, cuda: str) -> None:
    q, k, v = inputs(cuda, dtype, (130, 130), head_dim=head_dim)
    out, lse = kernels.flash_attention_with_lse(q, k, v)
    found = launched(lambda: kernels.flash_attention_backward(torch.ones_like(out), q, k, v, out, lse))
    dq = "flash_attention_dq_sm90a_kernel" if head_dim == 64 else "flash_attention_dq_of_ds_sm90a_kernel"
    assert {dq, "flash_attention_dkdv_sm90a_kernel"} <= found


def test_gradients_with_a_window(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (130, 130), head_dim=128)
    out, lse = kernels.flash_attention_with_lse(q, k, v, causal=True, window=50)
    found = launched(
        lambda: kernels.flash_attention_backward(torch.ones_like(out), q, k, v, out, lse, causal=True, window=50)
    )
    assert {"flash_attention_dq_sm90a_kernel", "flash_attention_dkdv_sm90a_kernel"} <= found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_of_wide_heads(dtype: torch.dtype, cuda: str) -> None:
    q, k, v = inputs(cuda, dtype, (130, 130), head_dim=256)
    out, lse = kernels.flash_attention_with_lse(q, k, v)
    found = launched(lambda: kernels.flash_attention_backward(torch.ones_like(out), q, k, v, out, lse))
    assert {"flash_attention_numbers_sm90a_kernel", "flash_attention_wide_gradient_sm90a_kernel"} <= found
