// int8_decode_attention.h: decode_attention over int8 keys and values with one scale per token and head (int8_kv.h).
//   key j is k_scales[j] * k_codes[j, :], values likewise; formula, masks and FLOP as in decode_attention
//   2 (head_dim + 4) * batch heads_kv length bytes: half of fp16's
// A key's scale multiplies its scores and a value's scale its weights, so no element is multiplied by a scale.
#pragma once

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_cache.h"

namespace warpwatch {

struct Int8Cache {
  const int8_t* k;  // (batch, heads_kv, capacity, head_dim), head_dim contiguous
  const int8_t* v;
  const float* k_scales;  // (batch, heads_kv, capacity), capacity contiguous
  const float* v_scales;
  int64_t k_batch_stride, k_head_stride, k_row_stride;
  int64_t v_batch_stride, v_head_stride, v_row_stride;
  int64_t k_scale_batch_stride, k_scale_head_stride;
  int64_t v_scale_batch_stride, v_scale_head_stride;
};

// A row as the CPU's loops read it: element by element, in fp32.
struct Int8Row {
  const int8_t* codes;
  float scale;

  float operator[](int d) const { return scale * static_cast<float>(codes[d]); }
};

struct Int8Head {
  const int8_t* keys;
  const int8_t* values;
  const float* key_scales;
  const float* value_scales;
  int64_t key_stride, value_stride;

  WARPWATCH_HOST_DEVICE Int8Head(const Int8Cache& cache, int batch, int head)
      : keys(cache.k + batch * cache.k_batch_stride + head * cache.k_head_stride),
        values(cache.v + batch * cache.v_batch_stride + head * cache.v_head_stride),
        key_scales(cache.k_scales + batch * cache.k_scale_batch_stride + head * cache.k_scale_head_stride),
        value_scales(cache.v_scales + batch * cache.v_scale_batch_stride + head * cache.v_scale_head_stride),
        key_stride(cache.k_row_stride),
        value_stride(cache.v_row_stride) {}

  int page_of(int) const { return 0; }
  Int8Row key_row(int, int key) const { return {keys + key * key_stride, key_scales[key]}; }
  Int8Row value_row(int, int key) const { return {values + key * value_stride, value_scales[key]}; }
};

template <typename Element>
struct HeadOf<Int8Cache, Element> {
  using Type = Int8Head;
};

// Any dtype of q, head_dim up to kDecodeAttentionCpuHeadDim.
void int8_decode_attention_cpu(const DecodeAttentionParams& p, const Int8Cache& cache);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

namespace warpwatch {

// Same requirements as decode_attention's launchers, but q is fp16 or bf16 on all of these GPUs and head_dim 64, 128 or 256.
// Rows of codes start on 16-byte boundaries.
cudaError_t int8_decode_attention_sm75(const DecodeAttentionParams& p, const Int8Cache& cache, cudaStream_t stream);
cudaError_t int8_decode_attention_sm80(const DecodeAttentionParams& p, const Int8Cache& cache, cudaStream_t stream);

}  // namespace warpwatch
#endif
