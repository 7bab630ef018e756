// int4_linear: out[m, n] = sum over k of x[m, k] * (nibble[n, k] - zero) * scales[n, k / group_size], summed in fp32
//   zero = zero_points[n, k / group_size], or 8 where there are none
//   x: (m, k), k contiguous, rows x_stride elements apart
//   packed_weight: (n, k / 2) bytes, contiguous; the low nibble is the even k, the high nibble the odd one after it
//   scales: (n, k / group_size), contiguous, of x's type;  out: (m, n), contiguous, of x's type
//   zero_points: null or (n, k / group_size) bytes of 0 to 15, contiguous
//   n k / 2 + 2 n k / group_size + 2 m (k + n) bytes in 16 bits, n k / group_size more with zero points, and 2 m n k
//   FLOP: memory-bound while m is small, for an H200 below about 64 rows
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
  int tile;        // these two as int4_linear_plan of int4_linear_tiles.h says
  int splits;      // thread blocks that share one output by dividing k between them
  Dtype dtype;     // of x, scales and out
};

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
// p.out[n, k] = (nibble[n, k] - zero) * scales[n, k / group_size], contiguous (n, k), of p.dtype and 16-byte aligned; x
// is not looked at.
cudaError_t int4_linear_dequantize_cuda(const Int4LinearParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
