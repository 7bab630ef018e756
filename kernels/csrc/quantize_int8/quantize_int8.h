// quantize_int8_per_token: each row of x as 8-bit integers and one fp32 scale, symmetric about zero
//   scales[m] = max(2^-100, max over k of |x[m, k]|) / 127
//   out[m, k] = x[m, k] * (127 / max(2^-100, max over k of |x[m, k]|)), rounded to the nearest integer, ties to even
//   x: (m, k), k contiguous, rows x_stride elements apart, any alignment;  scales: (m), fp32
//   out: (m, padded_k) int8, contiguous, 16-byte aligned; padded_k is k rounded up to 16, and what is past k is zero
//   m k (2 + 1) bytes in 16 bits and about 2 m k FLOP: memory-bound
//
// Both quotients are fp32, rounded once, so the CPU's result is the GPU's. The floor of 2^-100 keeps 127 / max finite;
// a row whose largest value lies below it becomes zeros, which moves x by less than 2^-100. A row with a NaN or an
// infinity has that as its scale, and whatever is multiplied by it says so.
//
// One scale a token: Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022), its per-token dynamic quantization.
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

constexpr float kLeastMagnitude = 7.8886090522101181e-31f;  // 2^-100
constexpr int kInt8RowBytes = 16;                           // a row of 8-bit integers is a multiple of this

struct QuantizeInt8Params {
  const void* x;
  int8_t* out;
  float* scales;
  int* counters;     // set to zero beside the rest, for the kernel that comes next; counter_count may be 0
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

// Enqueues on `stream`; allocates nothing, waits for nothing. m and k are positive.
cudaError_t quantize_int8_per_token_cuda(const QuantizeInt8Params& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
