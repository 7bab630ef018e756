"""Where bfloat16 has kernels: on a CPU, and on GPUs of compute capability 8.0 on."""

from __future__ import annotations

import os

import pytest
import torch


def has_bfloat16(device: str) -> bool:
    """Also where WARPWATCH_COMPUTE_CAPABILITY makes dispatch behave as on an older GPU."""
    if device != "cuda":
        return True
    forced = os.environ.get("WARPWATCH_COMPUTE_CAPABILITY")
    return int(forced) >= 80 if forced else torch.cuda.get_device_capability() >= (8, 0)


def skip_without_bfloat16(device: str, dtype: torch.dtype) -> None:
    """Skip the test where its dtype is bfloat16 and the device has none."""
    if dtype == torch.bfloat16 and not has_bfloat16(device):
        pytest.skip("bfloat16 needs compute capability 8.0")
