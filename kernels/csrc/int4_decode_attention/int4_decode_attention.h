// int4_decode_attention.h: decode_attention over 4-bit keys and values with a window of 16-bit ones (int4_kv.h).
//   key j, channel d: k_scales[j / 32, 0, d] * code + k_scales[j / 32, 1, d]
//   value j, channel d: v_scales[j, d / 32, 0] * code + v_scales[j, d / 32, 1]
//   positions from lengths / 32 * 32 on are in the window, in q's dtype
//   formula, masks and FLOP as in decode_attention; 5 / 4 head_dim * batch heads_kv length bytes plus the window's: 2 * 5 bits
//   per channel instead of 2 * 16
// A key's scale is applied to the query, once per group, and its zero is a product with the query alone:
// q . k = (q scale) . code + q . zero. Values are dequantized to fp16 in registers, with one packed FMA for two of them.
#pragma once

#include "decode_attention/decode_attention.h"
#include "int4_kv/int4_kv.h"

namespace warpwatch {

struct Int4Cache {
  const uint8_t* k_codes;
  const uint8_t* v_codes;
  const void* k_scales;  // fp16
  const void* v_scales;  // fp16
  const void* k_window;  // dtype of q
  const void* v_window;
  int heads_kv, capacity, head_dim;
  const int32_t* lengths;  // (batch)
};

// Any dtype of q, head_dim a multiple of 32 up to kDecodeAttentionCpuHeadDim.
void int4_decode_attention_cpu(const DecodeAttentionParams& p, const Int4Cache& cache);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

namespace warpwatch {

// Same requirements as decode_attention's launchers, but q is fp16 or bf16 on all of these GPUs and head_dim 64, 128 or 256.
// All tensors of the cache start on 16-byte boundaries.
cudaError_t int4_decode_attention_sm75(const DecodeAttentionParams& p, const Int4Cache& cache, cudaStream_t stream);
cudaError_t int4_decode_attention_sm80(const DecodeAttentionParams& p, const Int4Cache& cache, cudaStream_t stream);

}  // namespace warpwatch
#endif
