// Warp-wide matrix multiply-accumulate on tensor cores: D = A B + C, fp32 accumulation.
//
// Fragment layouts, for lane l of the warp, with g = l / 4 and t = l % 4. Each 32-bit register holds two
// neighbours of 16 bits, the one with the lower index in the lower half.
//
//   A, 16 x 16 (row, k)    a[0]: (g,     2t..2t+1)        a[2]: (g,     2t+8..2t+9)
//                          a[1]: (g + 8, 2t..2t+1)        a[3]: (g + 8, 2t+8..2t+9)
//   B, 16 x 8  (k, col)    b[0]: (2t..2t+1, g)            b[1]: (2t+8..2t+9, g)
//   C, 16 x 8  (row, col)  c[0..1]: (g, 2t..2t+1)         c[2..3]: (g + 8, 2t..2t+1)   one float each
//
// m16n8k8 takes the first half in k: a[0..1] and b[0]. So one m16n8k16 equals two m16n8k8, the second on a[2..3] and b[1], and
// a kernel written for one works on the other's fragments unchanged.
// The C fragments of two neighbouring 16 x 8 tiles, packed to 16 bits, are the A fragment of one 16 x 16 tile.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace warpwatch {

// c += a b for fp16, m16n8k8; sm_75 and newer.
__device__ __forceinline__ void mma_m16n8k8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

// c += a b, m16n8k16; sm_80 and newer. Element is __half or __nv_bfloat16.
template <typename Element>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                     uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                            uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rounds two floats to nearest even and packs them, `low` in the lower half.
template <typename Element>
__device__ __forceinline__ uint32_t pack(float low, float high);

template <>
__device__ __forceinline__ uint32_t pack<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

template <>
__device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

}  // namespace warpwatch
