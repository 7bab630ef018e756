// fp32 products on tensor cores ("3xTF32"): each operand is split into two parts of 11 bits, and three of the four products of
// parts are computed.
//
// TF32 has fp32's exponent and 10 explicit mantissa bits. hi is the value reduced to that, lo the remainder, of which the
// tensor core reads the first 11 bits: hi + lo is within 2^-22 of the value if hi was rounded, within 2^-21 if it was
// truncated. The omitted product lo lo is within 2^-21 of the product if one of the two operands was rounded. Relative error of
// attention over 2048 keys, head_dim 128, one H200: one operand rounded and one truncated 4.4e-7; both truncated 8.0e-7; fp32
// arithmetic 9.2e-7. The tensor core truncates when it accumulates, where fp32 would round, so long sums should be accumulated
// elsewhere. An infinity, or a value that rounds to one, makes every sum it enters NaN; NaN stays NaN.
//
// Fragment layouts of m16n8k8, for lane l of the warp, with g = l / 4 and t = l % 4, one value a register:
//   A, 16 x 8 (row, k)     a[0]: (g, t)    a[1]: (g + 8, t)    a[2]: (g, t + 4)    a[3]: (g + 8, t + 4)
//   B, 8 x 8  (k, col)     b[0]: (t, g)    b[1]: (t + 4, g)
//   C, 16 x 8 (row, col)   c[0..1]: (g, 2t..2t+1)    c[2..3]: (g + 8, 2t..2t+1)
// ldmatrix moves an 8 x 8 matrix of 16 bits as 8 rows of 16 bytes, here 8 rows of 4 values: register m of lane l holds row g,
// value t of matrix m.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpwatch {

template <int Count>
struct Tf32Pieces {
  uint32_t hi[Count], lo[Count];

  // hi is the value rounded to TF32 (the largest finite values become infinity), so lo is positive as often as negative.
  __device__ __forceinline__ void round(int i, float value) { split(i, value, __float_as_uint(value) + 0x1000u); }
  // hi is the value truncated to TF32: one instruction less.
  __device__ __forceinline__ void cut(int i, float value) { split(i, value, __float_as_uint(value)); }

 private:
  __device__ __forceinline__ void split(int i, float value, uint32_t bits) {
    // If ptxas knew the mask, it would drop it, since the tensor core ignores these bits, and then insert a move per value to
    // make an operand's registers consecutive. blockDim.y is always 1, which ptxas does not know.
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
