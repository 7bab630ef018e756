// int4_linear: out[m, n] = sum over k of x[m, k] * (nibble[n, k] - zero) * scales[n, k / group_size], summed in fp32
//   zero = zero_points[n, k / group_size], or 8 where there are none
//   x: (m, k), k contiguous, rows x_stride elements apart
//   packed_weight: (ceil(n / 16), k / 64, 512) bytes, contiguous: 512 for 16 outputs and 64 of k, in the order in which
//     the lanes of a warp want them as A of an mma (primitives/mma.cuh). With output 16 i + 8 v + g and
//     k = 64 j + 16 s + 8 u + 2 t + e, where g < 8, t, s < 4 and u, v, e < 2, the nibble lies in byte
//     16 (4 g + t) + 4 s + 2 e + u of (i, j), in its low half for v = 0, in its high half for v = 1. Outputs from n on
//     have bytes too, and their values do not matter.
//   scales: (n, k / group_size), contiguous, of x's type;  out: (m, n), contiguous, of x's type
//   zero_points: null or (n, k / group_size) bytes of 0 to 15, contiguous
//   n k / 2 + 2 n k / group_size + 2 m (k + n) bytes in 16 bits, n k / group_size more with zero points, and 2 m n k
//   FLOP: memory-bound while m is small, for an H200 below about 64 rows
//   Of few rows the scale's rounding is fp32's. Of many (tall_product.h; from 129 on older GPUs) (nibble - zero) * scale is
//   rounded to x's type first, as a model of 16-bit weights has it.
//
// The idea of 4-bit weights with one scale per group: Frantar et al., "GPTQ: Accurate Post-Training Quantization for
// Generative Pre-trained Transformers" (2023).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct Int4LinearParams {
  const void* x;
  const uint8_t* packed_weight;
  const void* scales;
  const uint8_t* zero_points;  // may be null
  void* out;
  float* workspace;  // splits * m * n floats if splits > 1, else unused
  int64_t x_stride;  // in elements
  int m, n, k;
  int group_size;  // 64 or 128, and it divides k
  int tile;        // of the kernel's table in int4_linear_tiles.h
  int splits;      // as int4_linear_plan says: thread blocks that share one output by dividing k between them
  Dtype dtype;     // of x, scales and out
};

// Most rows of x that Hopper's kernels take; more are dequantized to a matrix of 16 bits for cuBLAS.
constexpr int kInt4HopperRows = 4096;

// Whether Hopper's kernels take these operands. TMA wants rows of x that do not overlap; k is bounded so that its
// coordinates are ints.
inline bool int4_tma_takes(const Int4LinearParams& p) {
  return p.m <= kInt4HopperRows && p.x_stride >= p.k && p.k <= 1 << 28;
}

// Any dtype, any alignment; returns when the result is written. Ignores tile, splits and workspace.
void int4_linear_cpu(const Int4LinearParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// These enqueue on `stream`, allocate nothing and wait for nothing. x, each row of x and packed_weight start on 16-byte
// boundaries; m, n and k are positive. What a launcher was not built for returns cudaErrorInvalidValue.
cudaError_t int4_linear_sm75(const Int4LinearParams& p, cudaStream_t stream);  // fp16
cudaError_t int4_linear_sm80(const Int4LinearParams& p, cudaStream_t stream);  // fp16, bf16
// fp16, bf16; what int4_tma_takes, the first up to kInt4FewRows rows of x (int4_linear_tiles.h), the last for many rows
// (tall_product.h)
cudaError_t int4_linear_few_sm90a(const Int4LinearParams& p, cudaStream_t stream);
cudaError_t int4_linear_many_sm90a(const Int4LinearParams& p, cudaStream_t stream);
cudaError_t int4_linear_wide_sm90a(const Int4LinearParams& p, cudaStream_t stream);
cudaError_t int4_linear_tall_sm90a(const Int4LinearParams& p, cudaStream_t stream);
// p.out[n, k] = (nibble[n, k] - zero) * scales[n, k / group_size], contiguous (n, k), of p.dtype and 16-byte aligned; x
// is not looked at.
cudaError_t int4_linear_dequantize_cuda(const Int4LinearParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
