"""The order in which int4_linear reads 4-bit values: shuffled offline, so that a warp reads what lies side by side."""

from __future__ import annotations

import torch


def pack_int4(values: torch.Tensor) -> torch.Tensor:
    """values (N, K) uint8, each 0 to 15, K a multiple of 64, as int4_linear's packed_weight.

    The result is (ceil(N / 16), K / 64, 512) uint8: 512 bytes for 16 outputs and 64 of K, in the order of the tensor
    cores' registers, which csrc/int4_linear/int4_linear.h tells. Where N is no multiple of 16 zeros fill it up.
    Raises ValueError for another dtype or shape.
    """
    if values.dtype != torch.uint8 or values.dim() != 2 or values.shape[1] == 0 or values.shape[1] % 64:
        raise ValueError(
            f"pack_int4: values must be (N, K) uint8 with K a positive multiple of 64, "
            f"got {values.dtype} of shape {list(values.shape)}"
        )
    outputs, depth = values.shape
    strips = (outputs + 15) // 16
    if outputs % 16:
        values = torch.cat((values, values.new_zeros(strips * 16 - outputs, depth)))
    # output 16 i + 8 v + g and k 64 j + 16 s + 8 u + 2 t + e
    i_v_g_j_s_u_t_e = values.reshape(strips, 2, 8, depth // 64, 4, 2, 4, 2)
    low, high = i_v_g_j_s_u_t_e.permute(1, 0, 3, 2, 6, 4, 7, 5)  # v, of i j g t s e u
    return (low | (high << 4)).reshape(strips, depth // 64, 512)


def unpack_int4(packed_weight: torch.Tensor, outputs: int) -> torch.Tensor:
    """The values (outputs, K) uint8, 0 to 15, of a packed_weight that pack_int4 made.

    Raises ValueError for another dtype or shape, or a number of outputs that it does not hold.
    """
    if packed_weight.dtype != torch.uint8 or packed_weight.dim() != 3 or packed_weight.shape[2] != 512:
        raise ValueError(
            f"unpack_int4: packed_weight must be (ceil(N / 16), K / 64, 512) uint8, "
            f"got {packed_weight.dtype} of shape {list(packed_weight.shape)}"
        )
    strips, tiles, _ = packed_weight.shape
    if (outputs + 15) // 16 != strips:
        raise ValueError(f"unpack_int4: {strips} times 16 outputs are packed, and not {outputs}")
    i_j_g_t_s_e_u = packed_weight.reshape(strips, tiles, 8, 4, 4, 2, 2)
    v_i_j_g_t_s_e_u = torch.stack((i_j_g_t_s_e_u & 15, i_j_g_t_s_e_u >> 4))
    return v_i_j_g_t_s_e_u.permute(1, 0, 3, 2, 5, 7, 4, 6).reshape(strips * 16, tiles * 64)[:outputs]
