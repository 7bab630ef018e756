// attention_ladder.h: simple attention kernels, to read and to compare with flash_attention, step by step.
//   naive_attention   one warp per query; the scores go to memory and come back
//   tiled_attention   a block of queries loops over tiles of keys in shared memory; the scores never leave the SM
//   flash_attention   (kernels/csrc/flash_attention) the same loop on tensor cores
// All three compute out = softmax(scale q k^T) v with the same FlashAttentionParams and the same causal mask.
//   4 batch heads_q seq_q seq_kv head_dim FLOP; at least element size * 2 batch (heads_q seq_q + heads_kv seq_kv) head_dim
//   bytes, to
//   which naive_attention adds 16 batch heads_q seq_q seq_kv for its scores: written, read and written, read
#pragma once

#include "flash_attention/flash_attention.h"

namespace warpwatch {

// Query by query, in fp32. Any dtype and head_dim. (On the CPU tiled_attention is flash_attention_cpu, which is tiled too.)
void naive_attention_cpu(const FlashAttentionParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. Any dtype, any GPU, any strides and alignment.
// `scores` is (batch, heads_q, seq_q, seq_kv) fp32. head_dim up to kNaiveAttentionHeadDim.
constexpr int kNaiveAttentionHeadDim = 256;
cudaError_t naive_attention_cuda(const FlashAttentionParams& p, float* scores, cudaStream_t stream);

// head_dim is 64, 96, 128 or 256.
cudaError_t tiled_attention_cuda(const FlashAttentionParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
