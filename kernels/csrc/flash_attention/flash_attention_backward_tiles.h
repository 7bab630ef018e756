// The one file a tuner of the backward pass edits: how much of the problem a thread block holds.
//
// A block of 32 * warps threads owns 16 * warps rows, queries for dq and keys for dk and dv, and walks over `columns` of
// the others at a time. Registers per thread, in 32 bits: the gradients head_dim / 2 each, weights and ds columns / 2
// each. Shared memory, in bytes: 4 * head_dim * (16 * warps + columns).
// Evidence: one H200, 32 heads of 2048 queries, full, latency by CUDA events behind an L2 flush, us:
//   dq, head_dim 64: 64 columns 196, 128 columns 173; head_dim 128: 64 columns 348, 32 columns 401; 8 warps 10 to 20 % more
//   dkdv, head_dim 64: 64 columns 256, 32 columns 309; head_dim 128: 32 columns 523, 64 columns 454; 8 warps 8 to 19 % more
#pragma once

namespace warpwatch {

struct FlashAttentionBackwardTile {
  int warps;
  int columns;  // a multiple of 16
};

// At most 96 KB, for head_dim 256: a block may take 99 KB on sm_86, sm_89 and sm_120.
constexpr FlashAttentionBackwardTile flash_attention_dq_tile(int head_dim) {
  return {4, head_dim == 256 ? 32 : head_dim == 64 ? 128 : 64};
}
// dk and dv of head_dim 128 just leave room for two times 64 columns beside them; of 256 a kernel works out one of them.
constexpr FlashAttentionBackwardTile flash_attention_dkdv_tile(int head_dim) {
  return {4, head_dim == 256 ? 32 : 64};
}

constexpr int kFlashAttentionDeltaThreads = 256;  // a warp a query

}  // namespace warpwatch
