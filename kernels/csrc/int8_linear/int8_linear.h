// int8_linear (W8A8): out[m, n] = x_scales[m] * weight_scales[n] * sum over k of x[m, k] * weight[n, k] + bias[n]
//   x: (m, k) int8 and x_scales: (m) fp32, from quantize_int8_per_token (quantize_int8.h)
//   weight: (n, k) int8, weight_scales: (n) fp32;  bias: (n) of out's type, or null
//   out: (m, n), contiguous;  k is a multiple of 16, padded with zeros, and every row starts on a 16-byte boundary
//   m k + n k + 2 m n bytes with 16-bit out, 2 m n k int8 operations. Sums are exact in int32: |sum| <= 127 * 128 * k, so k is
//   at
//   most 131072. Memory-bound while m is small, on an H200 below about 120 rows.
//
// Two launches instead of one: a token's scale depends on all of its K values, so each block of a fused kernel would first have
// to read them all. The quantizing launch reads x once and writes half as many bytes, which the product then reads; it also
// zeroes the product's counters. From Hopper on, the product (except the batch kernel) starts to load its weights while the
// quantizing launch still runs (programmatic dependent launch, dependent_launch.cuh).
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
  int* arrived;   // one zeroed counter per tile, if splits > 1
  int* partials;  // as many sums as int8_linear_plan says, 16-byte aligned, if splits > 1
  int m, n, k;
  int tile, splits;  // from int8_linear_plan
  Dtype dtype;       // of bias and out
};

// Ignores tile, splits and the workspace.
void int8_linear_cpu(const Int8LinearParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. m, n and k are positive.
cudaError_t int8_linear_sm75(const Int8LinearParams& p, cudaStream_t stream);
cudaError_t int8_linear_sm80(const Int8LinearParams& p, cudaStream_t stream);
// For more than kInt8DecodeRows rows; tile is from int8_wgmma_tile. The kernel may start before the preceding launch on the
// stream, which quantizes x, has ended, and waits for it on the device.
cudaError_t int8_linear_sm90a(const Int8LinearParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
