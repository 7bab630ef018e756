// flash_attention.h: out = softmax(scale q k^T) v, the scores never written to memory.
//   q, out: (batch, heads_q, seq_q, head_dim); k, v: (batch, heads_kv, seq_kv, head_dim); head_dim contiguous
//   query head h reads key head h / (heads_q / heads_kv): heads_kv divides heads_q (GQA, MQA)
//   causal, aligned bottom-right: query i sees keys j <= i + (seq_kv - seq_q); a query that sees no key gives zeros
//   a window on top of that: query i sees the `window` newest of those keys, j > i + (seq_kv - seq_q) - window. Tiles of
//   keys that no query of a block sees are skipped, so the work grows with seq_q * window
//   packed: sequences of different lengths one behind the other, q and out (total_q, heads_q, head_dim), k and v (total_kv,
//   heads_kv, head_dim); sequence b has the queries cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1 and the keys of the same
//   places in cu_seqlens_kv, and all of the above holds within it
//   biased: out = softmax(scale q k^T + bias) v; a bias of -inf hides a key, and a query all of whose keys are hidden gives
//   zeros
//   lse: (batch, heads_q, seq_q), of packed sequences (heads_q, total_q), the logarithm of sum_j exp(scale q k_j + bias_j),
//   from which a backward pass has the weights; in fp64, as fp32 has no bits left for the sum behind a large score
//   4 batch heads_q seq_q seq_kv head_dim FLOP (about half when causal and square) over
//   element size * 2 batch (heads_q seq_q + heads_kv seq_kv) head_dim bytes: compute-bound from a few hundred queries on
//
// A bias adds element size * batch heads_q seq_q seq_kv bytes, or less where it is the same for the whole batch or all heads.
//
// After Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023), on Hopper Shah,
// Bikshandi, Zhang, Thakkar, Ramani and Dao, "FlashAttention-3" (2024), and, for the online softmax, Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
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
  double* lse;  // contiguous, -inf where no key is seen; null where nobody asks for it
  FlashAttentionStrides q_strides, k_strides, v_strides, out_strides;
  int batch, heads_q, heads_kv, seq_q, seq_kv, head_dim;  // heads_q, heads_kv >= 1
  float scale;                                            // positive and finite
  Dtype dtype;                                            // of all four
  bool causal;
  int window;  // keys that a query sees at most, 1 .. seq_kv - 1, with causal; 0 for no window
};

// Packed: of the above, q_strides, k_strides, v_strides and out_strides have batch 0; seq_q and seq_kv are at least those of
// the longest sequence.
struct FlashAttentionPackedParams : FlashAttentionParams {
  const int32_t* cu_seqlens_q;   // batch + 1 sums of lengths: 0, then where each sequence ends
  const int32_t* cu_seqlens_kv;  // likewise
  int total_q, total_kv;
  int* next_tile;  // on the device, for the kernel's dynamic scheduling: sm_90a's launcher sets it to 0
};

struct FlashAttentionBiasedParams : FlashAttentionParams {
  const void* bias;                    // (batch, heads_q, seq_q, seq_kv) in dtype, seq_kv contiguous
  FlashAttentionStrides bias_strides;  // 0 where it is the same for all
  bool bias_in_pairs;                  // all rows start on a boundary of two elements
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

// Enqueue on `stream`; allocate nothing, wait for nothing. head_dim is 64, 96, 128 or 256, and every row of q, k, v and out
// starts on a 16-byte boundary. What a launcher was not built for returns cudaErrorInvalidValue.
cudaError_t flash_attention_sm75(const FlashAttentionParams& p, cudaStream_t stream);  // fp16
cudaError_t flash_attention_sm80(const FlashAttentionParams& p, cudaStream_t stream);  // fp16, bf16
cudaError_t flash_attention_hbm(const FlashAttentionParams& p, cudaStream_t stream);  // fp16, bf16: what it takes
cudaError_t flash_attention_sm90a(const FlashAttentionParams& p, cudaStream_t stream);  // fp16, bf16: what it takes
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

// Whether flash_attention_sm90a does: 16-bit elements, of packed sequences and with a bias up to head_dim 128, at least one
// query and one key, and no stride of 0, which TMA has not. The rest is flash_attention_hbm's and flash_attention_sm80's.
bool flash_attention_sm90a_takes(const FlashAttentionParams& p);
bool flash_attention_sm90a_takes(const FlashAttentionPackedParams& p);
bool flash_attention_sm90a_takes(const FlashAttentionBiasedParams& p);

// Whether flash_attention_hbm does, on the current device.
cudaError_t flash_attention_hbm_takes(int head_dim, bool& takes);

}  // namespace warpwatch
#endif
