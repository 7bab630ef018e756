// attention_ladder.h: attention as one writes it first, to read and to compare with flash_attention, step by step.
//   naive_attention   a warp a query; the scores go to memory and come back
//   tiled_attention   a block of queries walks over tiles of keys in shared memory; the scores never leave the SM
//   flash_attention   (kernels/csrc/flash_attention) the same walk on tensor cores
// All three compute out = softmax(scale q k^T) v, take the same FlashAttentionParams and mean the same by causal.
//   4 batch heads_q seq_q seq_kv head_dim FLOP; element size * 2 batch (heads_q seq_q + heads_kv seq_kv) head_dim bytes at
//   least, to which naive_attention adds 16 batch heads_q seq_q seq_kv for its scores: written, read and written, read
#pragma once

#include "flash_attention/flash_attention.h"

namespace warpwatch {

// Query by query, in fp32. Any dtype and head_dim. (tiled_attention is flash_attention_cpu there, which walks over tiles.)
void naive_attention_cpu(const FlashAttentionParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

namespace warpwatch {

// Enqueue on `stream`; allocate nothing, wait for nothing. Any dtype, on any GPU; strides are free, addresses too.
// `scores` is (batch, heads_q, seq_q, seq_kv) fp32. head_dim goes up to kNaiveAttentionHeadDim.
constexpr int kNaiveAttentionHeadDim = 256;
cudaError_t naive_attention_cuda(const FlashAttentionParams& p, float* scores, cudaStream_t stream);

// head_dim is 64, 96, 128 or 256.
cudaError_t tiled_attention_cuda(const FlashAttentionParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
