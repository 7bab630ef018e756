// int4_linear (W4A16): out[m, n] = sum over k of x[m, k] * (nibble[n, k] - zero) * scales[n, k / group_size], summed in fp32
//   zero = zero_points[n, k / group_size], or 8 without zero points
//   x: (m, k), k contiguous, rows x_stride elements apart
//   packed_weight: (ceil(n / 16), k / 64, 512) bytes, contiguous. The 512 bytes hold 16 outputs and 64 of k in the order of an
//     mma's A fragments (primitives/mma.cuh). Output 16 i + 8 v + g and k = 64 j + 16 s + 8 u + 2 t + e, with g < 8, t, s < 4
//     and u, v, e < 2, is in byte 16 (4 g + t) + 4 s + 2 e + u of (i, j): in its low nibble for v = 0, in its high nibble for
//     v = 1. Outputs from n on are padding of any value.
//   scales: (n, k / group_size), contiguous, of x's type;  out: (m, n), contiguous, of x's type
//   zero_points: null or (n, k / group_size) bytes of 0 to 15, contiguous
//   n k / 2 + 2 n k / group_size + 2 m (k + n) bytes in 16 bits, n k / group_size more with zero points; 2 m n k FLOP:
//   memory-bound while m is small, on an H200 below about 64 rows
//   Rounding: with few rows, scales are applied in fp32. With many rows (tall_product.h; from 129 on older GPUs),
//   (nibble - zero) * scale is first rounded to x's type, as in a model with 16-bit weights.
//
// 4-bit weights with one scale per group: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
// Transformers" (2023).
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
  int tile;        // index into the kernel's table in int4_linear_tiles.h
  int splits;      // split-K: thread blocks per output, from int4_linear_plan
  Dtype dtype;     // of x, scales and out
};

// Most rows of x for Hopper's kernels; with more, the weight is dequantized to 16 bits for cuBLAS.
constexpr int kInt4HopperRows = 4096;

// Whether Hopper's kernels support these operands. TMA needs rows of x that do not overlap; k is bounded so that TMA
// coordinates fit an int.
inline bool int4_tma_takes(const Int4LinearParams& p) {
  return p.m <= kInt4HopperRows && p.x_stride >= p.k && p.k <= 1 << 28;
}

// Any dtype, any alignment; synchronous. Ignores tile, splits and workspace.
void int4_linear_cpu(const Int4LinearParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. x, each row of x and packed_weight start on 16-byte boundaries; m, n
// and k are positive. A launcher returns cudaErrorInvalidValue for arguments it has no kernel for.
cudaError_t int4_linear_sm75(const Int4LinearParams& p, cudaStream_t stream);  // fp16
cudaError_t int4_linear_sm80(const Int4LinearParams& p, cudaStream_t stream);  // fp16, bf16
// fp16, bf16, if int4_tma_takes. few: up to kInt4FewRows rows of x (int4_linear_tiles.h); tall: many rows (tall_product.h).
cudaError_t int4_linear_few_sm90a(const Int4LinearParams& p, cudaStream_t stream);
cudaError_t int4_linear_many_sm90a(const Int4LinearParams& p, cudaStream_t stream);
cudaError_t int4_linear_wide_sm90a(const Int4LinearParams& p, cudaStream_t stream);
cudaError_t int4_linear_tall_sm90a(const Int4LinearParams& p, cudaStream_t stream);
// p.out[n, k] = (nibble[n, k] - zero) * scales[n, k / group_size], contiguous (n, k), of
// p.dtype and 16-byte aligned. p.x is not used.
cudaError_t int4_linear_dequantize_cuda(const Int4LinearParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
