// int8_kv.h: appends new keys and values to an int8 cache; each row of a key or value has one fp32 scale
//   k_codes, v_codes: (batch, heads_kv, capacity, head_dim) int8, head_dim contiguous
//   k_scales, v_scales: (batch, heads_kv, capacity) fp32, capacity contiguous
//   k, v: (batch, heads_kv, seq, head_dim) fp16, bf16 or fp32, head_dim contiguous
// Row i of k and v is stored at position lengths[b] - seq + i. As in decode attention, lengths include the new tokens.
// Positions outside 0 .. capacity - 1 are skipped. For a row x:
//   scale = largest / 127, code = x (127 / largest) rounded to the nearest integer, largest = max(2^-100, max of |x|)
// so x is within half a scale of scale * code. quantize_int8.h has the same formula and defines NaN and infinity.
// 2 batch heads_kv seq (head_dim (element size + 1) + 4) bytes: memory-bound.
//
// One scale per token: the per-token dynamic quantization of Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct Int8KvParams {
  const void* rows[2];         // k, v
  int8_t* codes[2];
  float* scales[2];
  const int32_t* lengths;      // (batch)
  int64_t row_strides[2][3];   // batch, head, row; in elements, like all strides
  int64_t code_strides[2][3];  // batch, head, row
  int64_t scale_strides[2][2];  // batch, head
  int64_t batch, heads, seq;
  int capacity, head_dim;
  Dtype dtype;  // of k and v
};

void int8_kv_append_cpu(const Int8KvParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation. Any GPU; head_dim is a multiple of 8; rows of k and v are 16-byte
// and rows of codes 4-byte aligned.
constexpr int64_t kInt8KvMostRows = (int64_t{1} << 30) - 1;  // of k, and as many of v: row numbers are 32-bit
cudaError_t int8_kv_append_cuda(const Int8KvParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
