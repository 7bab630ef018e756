"""The Triton twin of flash_attention_backward, and how it fits GPUs that are not here."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from perf_suite.benchmarks.flash_attention_backward import flash_attention_backward as reference
from perf_suite.benchmarks.flash_attention_backward import output_and_lse

from .test_flash_attention import DTYPES, inputs
from .test_flash_attention_backward import MASKS, assert_close
from .triton_compiler import compile_for


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("seq", [(1, 1), (65, 130), (130, 65), (5, 0)], ids=str)
def test_triton_twin_agrees(
    seq: tuple[int, int],
    head_dim: int,
    dtype: torch.dtype,
    mask: str,
    device: str,
    twin: Callable[[str], Callable[..., tuple[torch.Tensor, ...]]],
) -> None:
    if device == "cpu":
        if dtype == torch.bfloat16:
            pytest.skip("Triton's interpreter multiplies the bit patterns of bfloat16")
        if head_dim > 96 or (mask != "causal" and (head_dim, dtype) != (64, torch.float32)):
            pytest.skip("what head_dim and dtype change is seen with 64 and 96, and causal; the interpreter takes long")
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
            pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    q, k, v = inputs(device, dtype, seq, head_dim=head_dim, heads=(4, 2), batch=1)
    d_out = torch.randn_like(q).transpose(1, 2).contiguous().transpose(1, 2)
    options = {name: value for name, value in MASKS[mask].items() if name != "scale"}
    out, lse = output_and_lse(q, k, v, **options)
    rounded = (d_out, q, k, v, out.to(dtype), lse)
    found = twin("flash_attention_backward")(*rounded, **options)
    assert_close(found, reference(*rounded, **options), dtype)


# Shared memory of one block at most, in KiB: CUDA C++ Programming Guide, technical specifications per capability.
SHARED_KIB = {75: 64, 80: 163, 86: 99, 90: 227, 120: 99}


# Of a configuration that GPUs share, the one with the least shared memory.
@pytest.mark.parametrize(
    ("compute_capability", "element", "head_dim"),
    [
        *((each, "fp16", 96) for each in SHARED_KIB),
        *((each, "fp16", 256) for each in (75, 86, 90)),
        (75, "fp32", 96),
        (75, "fp32", 256),
        (90, "fp32", 96),
    ],
)
def test_triton_twins_configs_fit_gpus_that_are_not_here(compute_capability: int, element: str, head_dim: int) -> None:
    # Of dk and dv: dq is cut alike, and holds one product's operands less.
    pytest.importorskip("triton", reason="Triton is not installed")
    from warpwatch.kernels.triton.flash_attention_backward import _flash_attention_dkdv, flash_attention_backward_config

    config = flash_attention_backward_config(compute_capability, head_dim, 4 if element == "fp32" else 2)
    constants = {
        "CAUSAL": True,
        "WINDOWED": head_dim == 96,
        "PRECISION": "ieee" if element == "fp32" else "tf32",
        "HEAD_DIM": head_dim,
        "BLOCK_D": 128 if head_dim == 96 else head_dim,
        "BLOCK_Q": config.step,
        "BLOCK_KV": config.owned,
    }
    pointers = (name for name in _flash_attention_dkdv.arg_names if name.endswith("_ptr"))
    types = {**dict.fromkeys(pointers, f"*{element}"), "lse_ptr": "*fp64", "delta_ptr": "*fp32", "scale": "fp32"}
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    compiled = compile_for(compute_capability, _flash_attention_dkdv, types, constants, **options)
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared <= SHARED_KIB[compute_capability] * 1024
