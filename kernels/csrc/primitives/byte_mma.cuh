// One step of a matrix product as the kernels that move bytes see it: 16 rows and 8 columns, 32 bytes of k of each.
// The fragments of 8-bit and of 16-bit elements lie alike (mma_int8.cuh), so a main loop is written once for both.
#pragma once

#include "primitives/mma.cuh"
#include "primitives/mma_int8.cuh"

namespace warpwatch {

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
