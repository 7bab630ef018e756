// int8_linear (W8A8): out[m, n] = x_scales[m] * weight_scales[n] * sum over k of x[m, k] * weight[n, k] + bias[n]
//   x: (m, k) int8 and x_scales: (m) fp32, as quantize_int8_per_token leaves them (quantize_int8.h)
//   weight: (n, k) int8, weight_scales: (n) fp32;  bias: (n) of out's type, or null
//   out: (m, n), contiguous;  k is a multiple of 16, padded with zeros, and every row starts on a 16-byte boundary
//   m k + n k + 2 m n bytes in 16 bits and 2 m n k operations of 8 bits, summed exactly in 32: |sum| <= 127 * 128 * k,
//   so k is at most 131072. Memory-bound while m is small, for an H200 below about 120 rows.
//
// Two launches, not one: a token's scale is the largest of its K values, and a block that multiplies would have to read
// all of them first, each block the same ones. The quantizing launch reads x once and writes half of it, the other
// takes half the bytes; it also sets the counters of the second launch to zero. From Hopper on the second, unless
// it is the batch kernel, begins to load its weights while the first still runs (dependent_launch.cuh).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

constexpr int64_t kMostInt8Depth = 131072;

struct Int8LinearParams {
  const int8_t* x;
  const float* x_scales;
  const int8_t* weight;
  const float* weight_scales;
  const void* bias;  // may be null
  void* out;
  int* arrived;   // one counter a tile, zero at the start, if splits > 1
  int* partials;  // int8_linear_plan's number of sums, 16-byte aligned, if splits > 1
  int m, n, k;
  int tile, splits;  // of int8_linear_plan
  Dtype dtype;       // of bias and out
};

// Ignores what belongs to the plan.
void int8_linear_cpu(const Int8LinearParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// These enqueue on `stream`, allocate nothing and wait for nothing. m, n and k are positive.
cudaError_t int8_linear_sm75(const Int8LinearParams& p, cudaStream_t stream);
cudaError_t int8_linear_sm80(const Int8LinearParams& p, cudaStream_t stream);
// More than kInt8DecodeRows rows; tile is of int8_wgmma_tile. It may begin before the launch ahead of it on the stream,
// which quantizes x, has ended, and waits for it.
cudaError_t int8_linear_sm90a(const Int8LinearParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
