// flash_attention_backward: dq, dk and dv of flash_attention (flash_attention.h: shapes, masks, scale, log-sum-exp).
//   p = exp(scale q k^T - lse), 0 where masked;  dp = d_out v^T;  ds = p (dp - delta),  delta = sum_d d_out out
//   dq = scale ds k;  dk = scale ds^T q;  dv = p^T d_out, summed over the query heads that share a key head
//   10 batch heads_q seq_q seq_kv head_dim FLOP (five products, half of it when causal and square)
//   element size * 4 batch (heads_q seq_q + heads_kv seq_kv) head_dim bytes: q, out, d_out, dq and k, v, dk, dv, once each
//
// Two kernels recompute p and ds from the log-sum-exp: one owns tiles of queries and accumulates dq, the other owns tiles of
// keys and accumulates dk and dv. That is seven products instead of five, but needs no atomics: each gradient is summed by one
// block, so the same input gives the same bits. On Hopper, with head_dim 96 and 128, the dk/dv kernel stores ds of some heads
// in memory and the dq kernel reads it, which saves two products.
// After Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023), section 3.1.
#pragma once

#include "flash_attention/flash_attention.h"

namespace warpwatch {

struct FlashAttentionBackwardParams {
  FlashAttentionParams forward;  // out and lse are inputs here
  const void* d_out;
  void* dq;
  void* dk;
  void* dv;
  FlashAttentionStrides d_out_strides, dq_strides, dk_strides, dv_strides;
  float* delta;  // workspace of flash_attention_backward_room() floats; null on the CPU
};

// Floats of workspace that the kernels share: delta of each query; on Hopper three numbers per query, padded to whole tiles.
constexpr int kFlashAttentionBackwardTileQueries = 64;
constexpr int64_t flash_attention_backward_room(int64_t heads, int64_t seq_q) {
  constexpr int64_t kTile = kFlashAttentionBackwardTileQueries;
  return heads * ((seq_q + kTile - 1) / kTile) * (3 * kTile);
}

// Any dtype, head_dim up to kFlashAttentionCpuHeadDim and a multiple of 8.
void flash_attention_backward_cpu(const FlashAttentionBackwardParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Same requirements as the forward pass's launchers (flash_attention.h): head_dim 64, 96, 128 or 256, rows of all tensors on
// 16-byte boundaries, and the dtypes given behind each launcher.
cudaError_t flash_attention_backward_sm75(const FlashAttentionBackwardParams& p, cudaStream_t stream);  // fp16
cudaError_t flash_attention_backward_sm80(const FlashAttentionBackwardParams& p, cudaStream_t stream);  // fp16, bf16
cudaError_t flash_attention_backward_fp32_sm75(const FlashAttentionBackwardParams& p, cudaStream_t stream);
cudaError_t flash_attention_backward_fp32_sm80(const FlashAttentionBackwardParams& p, cudaStream_t stream);
cudaError_t flash_attention_backward_fp32_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream);
// fp32, on tensor cores; head_dim 64, 96 or 128.
cudaError_t flash_attention_backward_tf32_hbm(const FlashAttentionBackwardParams& p, cudaStream_t stream);

// Supports what flash_attention_sm90a supports; flash_attention_backward_sm80 runs the rest. `room` is a workspace of
// flash_attention_backward_sm90a_room() bytes (at most 520 MB), 16-byte aligned; null if that is 0.
bool flash_attention_backward_sm90a_takes(const FlashAttentionBackwardParams& p);
int64_t flash_attention_backward_sm90a_room(const FlashAttentionBackwardParams& p);
cudaError_t flash_attention_backward_sm90a(const FlashAttentionBackwardParams& p, void* room, cudaStream_t stream);

// The kernels for head_dim 256, fp16 and bf16. The parameters must have a window (with_window).
cudaError_t flash_attention_backward_wide_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
