// int4_kv.h: appends new keys and values to a 4-bit cache as in KIVI, with the newest tokens in 16 bits
//   Tokens form groups of 32. A complete group of a sequence's keys is quantized per channel: each channel has one scale and
//   one
//   zero for its 32 keys. Values are quantized per token: each token has one scale and one zero for each 32 channels. The 0 to
//   31 tokens of an incomplete group stay unquantized in a window.
//   k_codes, v_codes:   (batch, heads_kv, capacity, head_dim / 2) uint8, channel 2 i in the low nibble of byte i
//   k_scales:           (batch, heads_kv, capacity / 32, 2, head_dim) fp16: scales, zeros
//   v_scales:           (batch, heads_kv, capacity, head_dim / 32, 2) fp16: scale, zero
//   k_window, v_window: (batch, heads_kv, 32, head_dim) in the dtype of k and v; position j in row j % 32
//   all contiguous; capacity and head_dim multiples of 32
//   k, v: (batch, heads_kv, seq, head_dim) fp16, bf16 or fp32, head_dim contiguous
// Row i of k and v is stored at position lengths[b] - seq + i; lengths include the new tokens. Positions outside
// 0 .. capacity - 1 are skipped. The window must hold the earlier tokens of the first row's group. For 32 numbers x:
//   zero = fp16(min x), scale = fp16((max x - min x) / 15), code = (x - zero) / scale rounded to the nearest integer in 0 .. 15
//   (0 if scale is 0), so x is within half a scale of scale * code + zero, up to the rounding of scale and zero to fp16
// Magnitudes beyond 65504, the largest in fp16, are clamped to it, in the window too; if rounding would take 15 scale + zero
// beyond it, scale is rounded down. A NaN among the 32 makes zero NaN.
// 5 bits per element instead of 16: 2 batch heads_kv head_dim (capacity 5 / 8 + 32 * 2) bytes.
//
// Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache" (ICML 2024), here with 4 bits.
#pragma once

#include <cstdint>

#include "framework/dtype.h"
#include "primitives/host_device.h"

namespace warpwatch {

constexpr int kInt4Group = 32;
constexpr float kLargestHalf = 65504.0f;

// x clamped to fp16's range; NaN stays NaN.
WARPWATCH_HOST_DEVICE float within_half(float x) {
  return x > kLargestHalf ? kLargestHalf : x < -kLargestHalf ? -kLargestHalf : x;
}

struct Int4KvParams {
  const void* rows[2];  // k, v
  uint8_t* codes[2];
  void* scales[2];             // fp16
  void* windows[2];            // dtype of k and v
  const int32_t* lengths;      // (batch)
  int64_t row_strides[2][3];   // batch, head, row; in elements
  int64_t batch, heads, seq;
  int capacity, head_dim;
  Dtype dtype;  // of k and v
};

void int4_kv_append_cpu(const Int4KvParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation. Any GPU, head_dim up to 256.
cudaError_t int4_kv_append_cuda(const Int4KvParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
