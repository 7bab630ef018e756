// decode_attention.h: attention of a few new tokens over a long KV cache.
//   q, out: (batch, heads_q, seq_q, head_dim), 1 <= seq_q <= 8; keys, values: (batch, heads_kv, length, head_dim) in a cache
//   GQA, MQA: query head h reads key head h / (heads_q / heads_kv); heads_kv divides heads_q
//   sequence b has lengths[b] keys; the new tokens' own keys are the last ones
//   query i sees keys j <= i + lengths[b] - seq_q; a query that sees no key returns zeros
//   4 batch heads_q seq_q length head_dim FLOP, 2 element size * batch heads_kv length head_dim bytes: at fp16,
//     heads_q / heads_kv * seq_q FLOP per byte, so memory-bound up to about a hundred queries per key head
//
// The queries that share a key head are packed into the rows of one matrix: row g * seq_q + i is token i of the group's head g.
// One block reads keys and values once for up to 16 or 32 rows. The keys of a sequence are divided into `splits` parts, one
// block each (split-KV), and a second kernel combines the parts. The number of splits follows from the shapes, the GPU and an
// optional upper bound of the lengths; the splits' boundaries follow from lengths[b], on the device. So a captured CUDA graph
// stays correct while sequences grow, even beyond the bound.
//
// After Dao, Haziza, Massa and Sizov, "Flash-Decoding for long-context inference" (2023), and, for combining the parts, Milakov
// and Gimelshein, "Online normalizer calculation for softmax" (2018).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct DecodeAttentionParams {
  const void* q;           // any strides, last dimension contiguous; on a GPU, rows start on 16-byte boundaries
  void* out;               // contiguous
  const int32_t* lengths;  // (batch), clamped to 0 .. capacity; null: every sequence has `capacity` keys
  float* partial_out;      // (splits, batch * heads_q * seq_q, head_dim), each part normalized; unused if splits is 1
  float* partial_max;      // (splits, batch * heads_q * seq_q): the part's largest score, -inf without keys; likewise
  float* partial_sum;      // same shape: the part's sum of 2^(scale_log2 (score - partial_max)); likewise
  int64_t q_batch_stride, q_head_stride, q_row_stride;  // in elements, like all strides
  int batch, heads_q, heads_kv, seq_q, capacity, head_dim;
  int group;  // heads_q / heads_kv, precomputed so that no block divides
  int splits;
  float scale;  // positive and finite
  Dtype dtype;  // of q, keys, values and out
};

// Keys and values as one tensor each: (batch, heads_kv, capacity, head_dim), head_dim contiguous.
struct ContiguousCache {
  const void* k;
  const void* v;
  int64_t k_batch_stride, k_head_stride, k_row_stride;
  int64_t v_batch_stride, v_head_stride, v_row_stride;
};

constexpr int kDecodeAttentionMostTokens = 8;

// Any dtype, head_dim up to kDecodeAttentionCpuHeadDim.
constexpr int kDecodeAttentionCpuHeadDim = 256;
void decode_attention_cpu(const DecodeAttentionParams& p, const ContiguousCache& cache);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. head_dim is 64, 96, 128 or 256, and every row of q, keys and values
// starts on a 16-byte boundary. A launcher returns cudaErrorInvalidValue for arguments it has no kernel for.
cudaError_t decode_attention_sm75(const DecodeAttentionParams& p, const ContiguousCache& cache, cudaStream_t stream);  // fp16
cudaError_t decode_attention_sm80(const DecodeAttentionParams& p, const ContiguousCache& cache,
                                  cudaStream_t stream);  // fp16, bf16
cudaError_t decode_attention_fp32(const DecodeAttentionParams& p, const ContiguousCache& cache,
                                  cudaStream_t stream);  // fp32, on any GPU

// Combines the parts into out; the launchers above call it if splits > 1. scale_log2 turns partial_max into exponents of 2.
cudaError_t decode_attention_combine_parts(const DecodeAttentionParams& p, float scale_log2, cudaStream_t stream);

}  // namespace warpwatch
#endif
