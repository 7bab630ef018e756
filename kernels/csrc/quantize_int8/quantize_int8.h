// quantize_int8_per_token: each row of x as int8 with one fp32 scale, symmetric about zero
//   scales[m] = max(2^-100, max over k of |x[m, k]|) / 127
//   out[m, k] = x[m, k] * (127 / max(2^-100, max over k of |x[m, k]|)), rounded to the nearest integer, ties to even
//   x: (m, k), k contiguous, rows x_stride elements apart, any alignment;  scales: (m), fp32
//   out: (m, padded_k) int8, contiguous, 16-byte aligned; padded_k is k rounded up to 16; the padding is zero
//   m k (2 + 1) bytes in 16 bits and about 2 m k FLOP: memory-bound
//
// Both quotients are fp32, rounded once, so CPU and GPU agree bit for bit. The floor of 2^-100 keeps 127 / max finite; a row
// with a smaller maximum becomes zeros, which changes x by less than 2^-100. A row with NaN or infinity has that as its scale,
// so every product with it is not finite either.
//
// One scale per token: the per-token dynamic quantization of Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

constexpr float kLeastMagnitude = 7.8886090522101181e-31f;  // 2^-100
constexpr int kInt8RowBytes = 16;                           // rows of int8 are padded to a multiple of this

struct QuantizeInt8Params {
  const void* x;
  int8_t* out;
  float* scales;
  int* counters;     // also zeroed, for the next kernel; counter_count may be 0
  int64_t x_stride;  // in elements
  int m, k, padded_k;
  int counter_count;
  Dtype dtype;  // of x
};

// Ignores the counters.
void quantize_int8_per_token_cpu(const QuantizeInt8Params& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation. m and k are positive.
cudaError_t quantize_int8_per_token_cuda(const QuantizeInt8Params& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
