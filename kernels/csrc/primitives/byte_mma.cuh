// One step of a matrix product, counted in bytes: 16 rows, 8 columns, 32 bytes of k. The fragments of 8-bit and 16-bit elements
// have the same layout in bytes, so one main loop serves both.
#pragma once

#include <cstdint>

#include "primitives/mma.cuh"

namespace warpwatch {

// Warp-wide matrix multiply-accumulate on tensor cores for int8: C += A B, exact int32 sums.
//
// Fragment layouts for lane l, with g = l / 4 and t = l % 4. Each 32-bit register holds four
// neighbours in k, the lowest in the lowest byte.
//
//   A, 16 x 32 (row, k)    a[0]: (g,     4t..4t+3)        a[2]: (g,     4t+16..4t+19)
//                          a[1]: (g + 8, 4t..4t+3)        a[3]: (g + 8, 4t+16..4t+19)
//   B, 32 x 8  (k, col)    b[0]: (4t..4t+3, g)            b[1]: (4t+16..4t+19, g)
//   C, 16 x 8  (row, col)  c[0..1]: (g, 2t..2t+1)         c[2..3]: (g + 8, 2t..2t+1)
//
// In bytes these are the layouts of m16n8k16 for 16-bit elements (mma.cuh), so the same ldmatrix loads serve both.

// One quarter of the above: 8 rows, 16 of k. c0 and c1 are (g, 2t) and (g, 2t + 1). sm_75 and newer.
__device__ __forceinline__ void mma_m8n8k16_s8(int& c0, int& c1, uint32_t a, uint32_t b) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
               : "+r"(c0), "+r"(c1)
               : "r"(a), "r"(b));
}

// sm_80 and newer.
__device__ __forceinline__ void mma_m16n8k32_s8(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct Int8MmaSm75 {
  using Sum = int;
  static __device__ __forceinline__ void run(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m8n8k16_s8(c[0], c[1], a[0], b0);
    mma_m8n8k16_s8(c[2], c[3], a[1], b0);
    mma_m8n8k16_s8(c[0], c[1], a[2], b1);
    mma_m8n8k16_s8(c[2], c[3], a[3], b1);
  }
};

struct Int8MmaSm80 {
  using Sum = int;
  static __device__ __forceinline__ void run(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k32_s8(c, a, b0, b1);
  }
};

// fp16 only.
struct HalfMmaSm75 {
  using Sum = float;
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k8(c, a[0], a[1], b0);
    mma_m16n8k8(c, a[2], a[3], b1);
  }
};

template <typename Element>
struct FloatMmaSm80 {
  using Sum = float;
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16<Element>(c, a, b0, b1);
  }
};

}  // namespace warpwatch
