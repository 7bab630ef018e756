"""The order of packed 4-bit values, against the sentence that specifies it in csrc/int4_linear/int4_linear.h."""

from __future__ import annotations

import pytest
import torch

from warpwatch import kernels


@pytest.mark.parametrize(("outputs", "depth"), [(16, 64), (33, 192), (1, 128)])
def test_each_value_lies_where_the_header_says(outputs: int, depth: int) -> None:
    values = torch.randint(0, 16, (outputs, depth), dtype=torch.uint8)
    packed = kernels.pack_int4(values)
    assert packed.shape == (-(-outputs // 16), depth // 64, 512)
    for n in range(outputs):
        i, v, g = n // 16, n % 16 // 8, n % 8
        for k in range(depth):
            j, s, u, t, e = k // 64, k % 64 // 16, k % 16 // 8, k % 8 // 2, k % 2
            byte = int(packed[i, j, 16 * (4 * g + t) + 4 * s + 2 * e + u])
            assert byte >> (4 * v) & 15 == values[n, k]


@pytest.mark.parametrize("outputs", [0, 1, 16, 17, 48])
def test_comes_back(outputs: int, device: str) -> None:
    values = torch.randint(0, 16, (outputs, 320), dtype=torch.uint8, device=device)
    assert torch.equal(kernels.unpack_int4(kernels.pack_int4(values), outputs), values)


def test_errors_state_what_is_expected() -> None:
    values = torch.zeros(3, 96, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"pack_int4: values must be \(N, K\) uint8 with K a positive multiple of 64"):
        kernels.pack_int4(values)
    with pytest.raises(ValueError, match=r"got torch.int8 of shape \[3, 64\]"):
        kernels.pack_int4(values[:, :64].to(torch.int8))
    with pytest.raises(ValueError, match=r"unpack_int4: packed_weight must be \(ceil\(N / 16\), K / 64, 512\) uint8"):
        kernels.unpack_int4(values, 3)
    with pytest.raises(ValueError, match="unpack_int4: 1 times 16 outputs are packed, and not 17"):
        kernels.unpack_int4(torch.zeros(1, 2, 512, dtype=torch.uint8), 17)
