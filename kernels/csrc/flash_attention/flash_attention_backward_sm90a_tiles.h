// The tuner's file for Hopper's backward kernels: how much of the problem a block holds.
//
// Registers per thread, in 32 bits: each gradient head_dim / 2, weights and their gradients columns / 2 each, columns / 4 for
// each of them that is packed. A thread of two groups has 240, of three 160. Shared memory, in bytes:
// 4 * head_dim * (64 * groups * owned_stages + columns * stages), for dk and dv 1 KB a stage more.
#pragma once

namespace warpwatch {

struct FlashAttentionBackwardSm90aTile {
  int groups;        // of four warps, which own 64 rows each: queries for dq, keys for dk and dv
  int columns;       // of the others in one step
  int stages;        // of a step's tiles
  int owned_stages;  // with 2, the next tile's own rows arrive during all of this one's work
  int blocks;        // on an SM
};

constexpr FlashAttentionBackwardSm90aTile flash_attention_dq_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {3, 64, 4, 1, 1};
  return {2, 64, 3, 1, 1};
}

constexpr FlashAttentionBackwardSm90aTile flash_attention_dkdv_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {3, 64, 4, 1, 1};
  return {2, 64, 4, 1, 1};
}

}  // namespace warpwatch
