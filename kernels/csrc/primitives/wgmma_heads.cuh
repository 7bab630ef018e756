// Attention's two products by wgmma (wgmma.cuh), with 16-bit operands and fp32 accumulation; Hopper only (sm_90a).
//
//   scores (64 x N) = Q K^T   Q (64 x 16) and K (N x 16) in shared memory, both K-major: wgmma_rows()
//   out (64 x D) += P V       P (64 x 16) in registers, V (16 x D) in shared memory, MN-major: wgmma_columns()
//
// Tiles consist of slabs of 64 columns, rows of 128 bytes, in TMA's swizzle.
#pragma once

#include "primitives/wgmma.cuh"

namespace warpwatch {

// Descriptor of V from this shared address on, with slabs slab_bytes apart: bits 16-29 the stride between slabs of 64 columns /
// 16; bits 32-45 the stride between groups of eight rows, 1024 bytes / 16. Adding 128 advances by 16 rows.
__device__ __forceinline__ uint64_t wgmma_columns(uint32_t address, uint32_t slab_bytes) {
  return uint64_t{1} << 62 | uint64_t{64} << 32 | uint64_t{slab_bytes >> 4} << 16 | (address & 0x3ffff) >> 4;
}

template <typename Element>
struct HeadWgmma;

// One width of each product: kN columns are `tiles` tiles of 8 and `count` registers; a, b
// (a0 ..) are the operand numbers after them.
#define WARPWATCH_SCORES(type, n, tiles, count, a, b, scale_d)                                                          \
  static __device__ __forceinline__ void scores(float(&c)[tiles][4], uint64_t q, uint64_t k, int adding) {              \
    asm volatile("{\n.reg .pred add;\nsetp.ne.u32 add, " scale_d ", 0;\n"                                               \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" WARPWATCH_NAMES_##count "}, " a    \
                 ", " b ", add, 1, 1, 0, 0;\n}\n"                                                                       \
                 : WARPWATCH_C##tiles("+f", c, 0)                                                                       \
                 : "l"(q), "l"(k), "r"(adding));                                                                        \
  }
#define WARPWATCH_VALUES(type, n, tiles, count, a, b)                                                                   \
  static __device__ __forceinline__ void values(float(&c)[tiles][4], const uint32_t(&p)[4], uint64_t v) {               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" WARPWATCH_NAMES_##count "}, {" a   \
                 "}, " b ", 1, 1, 1, 1;\n"                                                                              \
                 : WARPWATCH_C##tiles("+f", c, 0)                                                                       \
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));                                                 \
  }
#define WARPWATCH_HEAD_WGMMA(element, type)                                     \
  template <>                                                                   \
  struct HeadWgmma<element> {                                                   \
    WARPWATCH_SCORES(type, "64", 8, 32, "%32", "%33", "%34")                    \
    WARPWATCH_SCORES(type, "96", 12, 48, "%48", "%49", "%50")                   \
    WARPWATCH_SCORES(type, "128", 16, 64, "%64", "%65", "%66")                  \
    WARPWATCH_SCORES(type, "192", 24, 96, "%96", "%97", "%98")                  \
    WARPWATCH_SCORES(type, "256", 32, 128, "%128", "%129", "%130")              \
    WARPWATCH_VALUES(type, "64", 8, 32, "%32, %33, %34, %35", "%36")            \
    WARPWATCH_VALUES(type, "96", 12, 48, "%48, %49, %50, %51", "%52")           \
    WARPWATCH_VALUES(type, "128", 16, 64, "%64, %65, %66, %67", "%68")          \
    WARPWATCH_VALUES(type, "256", 32, 128, "%128, %129, %130, %131", "%132")    \
  };
WARPWATCH_HEAD_WGMMA(__half, "f16")
WARPWATCH_HEAD_WGMMA(__nv_bfloat16, "bf16")
#undef WARPWATCH_HEAD_WGMMA
#undef WARPWATCH_VALUES
#undef WARPWATCH_SCORES

}  // namespace warpwatch
