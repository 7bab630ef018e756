// The tuner's file for Hopper's backward kernels: how much of the problem a block holds.
//
// Registers per thread, in 32 bits: each gradient head_dim / 2, weights and their gradients columns / 2 each, columns / 4 for
// each of them that is packed, head_dim / 4 for each tensor of owned rows that is held. A thread of two groups has 240.
// Shared memory, in bytes: 4 * head_dim * (64 * groups * owned_stages + columns * stages), for dk and dv 1 KB a stage more.
#pragma once

namespace warpwatch {

struct FlashAttentionBackwardSm90aTile {
  int groups;        // of four warps, which own 64 rows each: queries for dq, keys for dk and dv
  int columns;       // of the others in one step
  int stages;        // of a step's tiles
  int owned_stages;  // with 2, the next tile's own rows arrive during all of this one's work
  int blocks;        // on an SM
};

// One H100, cold L2, us, fp16, head_dim 64, {16 x 32 heads of 512 full, causal; 32 heads of 2048 causal}. Both kernels by three
// groups, one owned stage, dk and dv waiting for each query tile: 398, 313, 179. dk and dv by two groups, two query tiles under
// way: 395, 309, 178; two owned stages: 375, 289, 172; rows in registers and dq by two groups, two owned stages: 368, 273, 166.
// Both by one group, two blocks on an SM: 427, 296, 152. A block's delta kernel with as many lanes a query as it has pieces, and
// each kernel launched while the one before it ends: 336, 239, 159.
// Head_dim 128, 32 heads of 2048 full, causal; 4096 causal: 434, 286, 812 before; all of it but for two query tiles under way in
// dk and dv 432, 272, 810, with them 440, 275, 821. dq without queries in registers 433, 278, 833, with two owned stages alone
// 435, 277, 816. More columns or groups do not fit: ptxas then waits for each product.
// Since then, cold L2, us, before / after: dq's tiles of causal problems are one section, those of full ones come in rounds of
// heads (flash_attention_sm90a_rounds.h): 32 heads of 2048 of 128, causal, 276 / 250, full 430 / 427. ds of head_dim 128 is left
// in memory for dq's kernel (flash_attention_dkdv_sm90a.cuh): full 431 / 400, causal 274 / 250 (bf16 279 / 256) and of 4096
// 815 / 785, with dq by tiles of 256 queries alone 871. Stored before dk's product instead of beside it, in another run, 394.
// Head_dim 256 has kernels of its own, flash_attention_wide_gradient_sm90a.cuh: 16 heads of 2048, causal, 588 by sm_80's, 268.
constexpr FlashAttentionBackwardSm90aTile flash_attention_dq_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {2, 64, 4, 2, 1};
  return {2, 64, 3, 2, 1};
}

constexpr FlashAttentionBackwardSm90aTile flash_attention_dkdv_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {2, 64, 5, 2, 1};
  return {2, 64, 4, 1, 1};
}

}  // namespace warpwatch
