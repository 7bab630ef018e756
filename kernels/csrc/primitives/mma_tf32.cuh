// Products of fp32 on tensor cores: each operand in two pieces of 11 bits, three of the four products of pieces.
//
// tf32 has fp32's exponent and 10 bits behind the point. hi is a value with as many bits, lo what is left, of which the
// tensor core takes the first 11: hi + lo is within 2^-22 of the value where hi was rounded, 2^-21 where it was cut off; and
// lo lo, which nobody multiplies, is within 2^-21 of the product if one of the two was rounded. With one operand rounded and
// one cut off, attention over 2048 keys is 4.4e-7 off (relative, head_dim 128), cut off both 8.0e-7, and by fp32's own
// products and sums 9.2e-7: one H200.
// What the tensor core adds to a sum it cuts off where fp32 would round, so the sum of many should be added up elsewhere.
// An infinity, or what rounds to one, makes NaN of every sum that it is in; NaN stays NaN.
//
// Fragment layouts of m16n8k8, for lane l of the warp, with g = l / 4 and t = l % 4, one value a register:
//   A, 16 x 8 (row, k)     a[0]: (g, t)    a[1]: (g + 8, t)    a[2]: (g, t + 4)    a[3]: (g + 8, t + 4)
//   B, 8 x 8  (k, col)     b[0]: (t, g)    b[1]: (t + 4, g)
//   C, 16 x 8 (row, col)   c[0..1]: (g, 2t..2t+1)    c[2..3]: (g + 8, 2t..2t+1)
// ldmatrix moves an 8 x 8 matrix of 16 bits as 8 rows of 16 bytes, so one of 8 x 4 values here: register m of lane l holds
// row g, value t of matrix m.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpwatch {

template <int Count>
struct Tf32Pieces {
  uint32_t hi[Count], lo[Count];

  // hi is the value rounded to tf32 (the largest numbers become infinity), so that lo is as often below zero as above.
  __device__ __forceinline__ void round(int i, float value) { split(i, value, __float_as_uint(value) + 0x1000u); }
  // hi is the value cut off: an instruction less.
  __device__ __forceinline__ void cut(int i, float value) { split(i, value, __float_as_uint(value)); }

 private:
  __device__ __forceinline__ void split(int i, float value, uint32_t bits) {
    // A mask that ptxas knew it would drop, as the tensor core reads no more bits, and then move values to where an
    // operand's registers are neighbours: a move more each. blockDim.y is 1, which it does not know.
    uint32_t one;
    asm("mov.u32 %0, %%ntid.y;\n" : "=r"(one));
    hi[i] = bits & (0xffffdfffu + one);
    lo[i] = __float_as_uint(value - __uint_as_float(hi[i]));
  }
};

// c += a b, m16n8k8; sm_80 and newer.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace warpwatch
