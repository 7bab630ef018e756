"""What quantized keys and values cost in attention's output, over distributions with outlier channels; on the CPU.

    python -m perf_suite.trials.quantized_kv_error --out perf_suite/trials/quantized-kv-error.json

Seconds. The caches are filled by the append operators; the exact answer is float64 attention over the float32 keys and
values that they were given.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from warpwatch.kernels import int4_decode_attention, int4_kv_append, int8_decode_attention, int8_kv_append

from ..benchmarks.decode_attention import decode_attention as reference

BATCH, HEADS, HEADS_KV, KEYS, HEAD_DIM = 2, 8, 2, 4112, 128  # 4112: the last 16 tokens stay in the window
OUTLIER_CHANNELS = 4
SEED = 20250


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """||out - exact|| / ||exact|| of one cache; outlier channels of keys are so many times as large as the others."""

    cache: str
    outlier_factor: float
    offset: bool  # whether the outliers lie about a mean of that size, as in trained models, instead of about zero
    error: float


def measure() -> list[Error]:
    """Unit normal queries, keys and values, and keys with outlier channels of 10 to 50 times that size."""
    found = []
    for factor, offset in ((1.0, False), (10.0, False), (10.0, True), (50.0, False), (50.0, True)):
        torch.manual_seed(SEED)
        q = torch.randn(BATCH, HEADS, 1, HEAD_DIM)
        k, v = torch.randn(2, BATCH, HEADS_KV, KEYS, HEAD_DIM)
        outliers = torch.randperm(HEAD_DIM)[:OUTLIER_CHANNELS]
        if offset:
            k[..., outliers] += factor
        else:
            k[..., outliers] *= factor
        lengths = torch.full((BATCH,), KEYS, dtype=torch.int32)
        exact = reference(q, k, v, lengths)
        for name, out in (("int8", _int8(q, k, v, lengths)), ("int4", _int4(q, k, v, lengths))):
            error = ((out.double() - exact).norm() / exact.norm()).item()
            found.append(Error(cache=name, outlier_factor=factor, offset=offset, error=error))
    return found


def _int8(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    codes = torch.empty(2, *k.shape, dtype=torch.int8)
    scales = torch.empty(2, *k.shape[:3])
    int8_kv_append(k, v, codes[0], codes[1], scales[0], scales[1], lengths)
    return int8_decode_attention(q, codes[0], codes[1], scales[0], scales[1], lengths)


def _int4(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    batch, heads_kv, keys, head_dim = k.shape
    capacity = -(-keys // 32) * 32
    codes = torch.empty(2, batch, heads_kv, capacity, head_dim // 2, dtype=torch.uint8)
    k_scales = torch.empty(batch, heads_kv, capacity // 32, 2, head_dim, dtype=torch.float16)
    v_scales = torch.empty(batch, heads_kv, capacity, head_dim // 32, 2, dtype=torch.float16)
    windows = torch.empty(2, batch, heads_kv, 32, head_dim)
    cache = codes[0], codes[1], k_scales, v_scales, windows[0], windows[1]
    int4_kv_append(k, v, *cache, lengths)
    return int4_decode_attention(q, *cache, lengths)


def main() -> None:
    """Measure, print and write."""
    arguments = argparse.ArgumentParser(description="the error of quantized caches, over outlier channels of keys")
    arguments.add_argument("--out", type=Path, required=True)
    out = arguments.parse_args().out
    errors = measure()
    for each in errors:
        about = "about their mean" if each.offset else "about zero"
        print(f"{each.cache}  outliers {each.outlier_factor:4g} times, {about:16}  {each.error:.4f}")
    out.write_text(
        json.dumps({"torch": torch.__version__, "errors": [asdict(each) for each in errors]}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
