// flash_attention.h: out = softmax(scale q k^T) v; the scores stay on chip.
//   q, out: (batch, heads_q, seq_q, head_dim); k, v: (batch, heads_kv, seq_kv, head_dim); head_dim contiguous
//   GQA, MQA: query head h reads key head h / (heads_q / heads_kv); heads_kv divides heads_q
//   causal: aligned bottom-right, query i sees keys j <= i + (seq_kv - seq_q); a query that sees no key returns zeros
//   window (with causal): query i sees only the `window` newest of those keys, j > i + (seq_kv - seq_q) - window. Key tiles
//     that no query of a block sees are skipped, so the work grows with seq_q * window
//   packed: sequences of different lengths, concatenated; q and out (total_q, heads_q, head_dim), k and v (total_kv, heads_kv,
//     head_dim). Sequence b has queries cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1 and keys cu_seqlens_kv[b] ..
//     cu_seqlens_kv[b + 1] - 1; masks apply within each sequence
//   biased: out = softmax(scale q k^T + bias) v; a bias of -inf hides a key; a query whose keys are all hidden returns zeros
//   lse: (batch, heads_q, seq_q), packed (heads_q, total_q): log sum_j exp(scale q k_j + bias_j), input of the backward pass.
//     In fp64: beside a large maximum score, fp32 has no bits left for the log of the sum
//
// 4 batch heads_q seq_q seq_kv head_dim FLOP (about half when causal and square).
// element size * 2 batch (heads_q seq_q + heads_kv seq_kv) head_dim bytes: compute-bound from a few hundred queries on.
// A bias adds element size * batch heads_q seq_q seq_kv bytes, less where it is broadcast over batch or heads.
//
// After Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023); on Hopper Shah,
// Bikshandi, Zhang, Thakkar, Ramani and Dao, "FlashAttention-3" (2024); online softmax: Milakov and Gimelshein, "Online
// normalizer calculation for softmax" (2018).
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct FlashAttentionStrides {
  int64_t batch, head, row;  // in elements
};

struct FlashAttentionParams {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  double* lse;  // contiguous, -inf where no key is seen; null if not requested
  FlashAttentionStrides q_strides, k_strides, v_strides, out_strides;
  int batch, heads_q, heads_kv, seq_q, seq_kv, head_dim;  // heads_q, heads_kv >= 1
  float scale;                                            // positive and finite
  Dtype dtype;                                            // of q, k, v and out
  bool causal;
  int window;  // most keys that a query sees, 1 .. seq_kv - 1, with causal; 0: no window
};

// Packed sequences. In the base struct all strides have batch 0, and seq_q, seq_kv are at least those of the longest sequence.
struct FlashAttentionPackedParams : FlashAttentionParams {
  const int32_t* cu_seqlens_q;   // batch + 1 prefix sums of the lengths: 0, then each sequence's end
  const int32_t* cu_seqlens_kv;  // the same for keys
  int total_q, total_kv;
  int* next_tile;  // device counter of sm_90a's dynamic tile scheduler; its launcher sets it to 0
};

struct FlashAttentionBiasedParams : FlashAttentionParams {
  const void* bias;                    // (batch, heads_q, seq_q, seq_kv) in dtype, seq_kv contiguous
  FlashAttentionStrides bias_strides;  // 0 in a broadcast dimension
  bool bias_in_pairs;                  // all rows are aligned to two elements
};

// Any dtype, head_dim up to kFlashAttentionCpuHeadDim.
constexpr int kFlashAttentionCpuHeadDim = 256;
void flash_attention_cpu(const FlashAttentionParams& p);
void flash_attention_cpu(const FlashAttentionPackedParams& p);
void flash_attention_cpu(const FlashAttentionBiasedParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. head_dim is 64, 96, 128 or 256, and every row of q, k, v and out
// starts on a 16-byte boundary. A launcher returns cudaErrorInvalidValue for arguments it has no kernel for.
cudaError_t flash_attention_sm75(const FlashAttentionParams& p, cudaStream_t stream);  // fp16
cudaError_t flash_attention_sm80(const FlashAttentionParams& p, cudaStream_t stream);  // fp16, bf16
cudaError_t flash_attention_hbm(const FlashAttentionParams& p, cudaStream_t stream);  // fp16, bf16: if ..._hbm_takes
cudaError_t flash_attention_sm90a(const FlashAttentionParams& p, cudaStream_t stream);  // fp16, bf16: if ..._sm90a_takes
cudaError_t flash_attention_fp32_sm75(const FlashAttentionParams& p, cudaStream_t stream);
cudaError_t flash_attention_fp32_sm80(const FlashAttentionParams& p, cudaStream_t stream);
cudaError_t flash_attention_tf32_hbm(const FlashAttentionParams& p, cudaStream_t stream);  // fp32, on tensor cores

cudaError_t flash_attention_sm75(const FlashAttentionPackedParams& p, cudaStream_t stream);
cudaError_t flash_attention_sm80(const FlashAttentionPackedParams& p, cudaStream_t stream);
cudaError_t flash_attention_hbm(const FlashAttentionPackedParams& p, cudaStream_t stream);
cudaError_t flash_attention_sm90a(const FlashAttentionPackedParams& p, cudaStream_t stream);
cudaError_t flash_attention_fp32_sm75(const FlashAttentionPackedParams& p, cudaStream_t stream);
cudaError_t flash_attention_fp32_sm80(const FlashAttentionPackedParams& p, cudaStream_t stream);
cudaError_t flash_attention_tf32_hbm(const FlashAttentionPackedParams& p, cudaStream_t stream);

cudaError_t flash_attention_sm75(const FlashAttentionBiasedParams& p, cudaStream_t stream);
cudaError_t flash_attention_sm80(const FlashAttentionBiasedParams& p, cudaStream_t stream);
cudaError_t flash_attention_sm90a(const FlashAttentionBiasedParams& p, cudaStream_t stream);
cudaError_t flash_attention_fp32_sm75(const FlashAttentionBiasedParams& p, cudaStream_t stream);
cudaError_t flash_attention_fp32_sm80(const FlashAttentionBiasedParams& p, cudaStream_t stream);
cudaError_t flash_attention_tf32_hbm(const FlashAttentionBiasedParams& p, cudaStream_t stream);

// Whether flash_attention_sm90a supports these arguments: 16-bit elements, head_dim up to 128 if packed or biased, at least one
// query and one key, and no stride of 0, which TMA cannot encode. flash_attention_hbm and flash_attention_sm80 run the rest.
bool flash_attention_sm90a_takes(const FlashAttentionParams& p);
bool flash_attention_sm90a_takes(const FlashAttentionPackedParams& p);
bool flash_attention_sm90a_takes(const FlashAttentionBiasedParams& p);

// Whether flash_attention_hbm has a tile for this head_dim that fits on the current device.
cudaError_t flash_attention_hbm_takes(int head_dim, bool& takes);

}  // namespace warpwatch
#endif
