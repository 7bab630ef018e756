// The tuner's file for Hopper's wgmma kernel: how much of the problem a block holds, and when which tile is taken.
//
// `groups` of four warps own 64 queries each and walk over `keys` keys at a time. Shared memory, in bytes:
// 2 * head_dim * (2 * stages * keys + query_stages * 64 * groups). Registers per thread, in 32 bits: the output head_dim / 2,
// the scores keys / 2, the weights, packed, keys / 4. A thread of one group has 216 where two blocks share an SM and 120 where
// three do, of two groups 240, of three 160.
// Evidence: one H200, fp16, CUDA graphs of some calls, the tiles in turns and the best of seven, us:
//   head_dim 128, causal, 32 heads of 1024 / 2048 / 8192: {2, 128, 2, 2} 22.3 / 66.6 / 932; groups that wait for each other's
//   products, as FlashAttention-3 has it, 22.0 / 67.1 / 960; 176 keys, three groups of 64 keys and 96 keys were slower
//   head_dim 64: 32 heads of 4096, causal: {3, 128, 2, 2} 158, {1, 64, 3, 2, 3} 177, {1, 128, 2, 2, 2} 175;
//   8 x 12 of 1024, causal: 51.0, 44.9, 47.6; 12 of 1024, causal: 19.5, 14.7, 13.5; 32 of 1024, full: 32.5, 31.3, 27.1
//   16 x 32 of 512, full: {3, 128, 2, 2} 108 though its last tile is two thirds empty, {2, 128, 3, 2} 112, {1, 64, 3, 2, 3} 114,
//   {1, 128, 2, 2, 2} 117; causal: {1, 64, 3, 2, 3} 78, {2, 128, 3, 2} 84, {1, 128, 2, 2, 2} 86, {3, 128, 2, 2} 92
//   head_dim 96 in the tile of 128: 32 heads of 2048, causal, 72 (sm_80's kernel 95); 8 x 16 of 1024, full, 132 (175)
//   head_dim 256: 16 heads of 2048, causal, 71 (sm_80's kernel 124); 2 x 16 of 1024, full, 69 (123)
//   Since then the softmax rescales seldom and what is of one key head is worked on at one time. One H100, before / after, the
//   same tiles: head_dim 128, causal, 32 heads of 1024 24.0 / 22.5, 2048 70.8 / 67.5, 4096 242 / 229, full, 1024 34.8 / 33.2;
//   head_dim 64: 16 x 32 of 512, full, {3, 128, 2, 2} 108 / 95, {2, 128, 3, 2} - / 97, {1, 64, 3, 2, 3} 119 / 100,
//   {1, 128, 2, 2, 2} 117 / 101; causal 91 / 88, - / 78, 76 / 72, 85 / 83; 32 of 2048, causal, 53 / 48, - / 48, 55 / 47,
//   54 / 48; 32 of 4096, causal, 168 / 151, - / 158, 194 / 167, 193 / 177; head_dim 256: 16 heads of 2048, causal, 71 / 63, 2 x 16 of
//   1024, full, 66 / 61
//   Tried on it and dropped: one pipeline over the tiles of queries and of keys, where the next queries' first product is under
//   way with the last values: head_dim 128, causal, 32 heads of 2048 72.6 instead of 71.2, full, 1024 35.7 instead of 34.2. Two
//   groups already fill each other's gaps.
//   16 packed sequences of 32 to 4096, causal: 32 heads of 128 over 8 key heads 1464 (sm_80's kernel 2404), as one block a
//   tile instead of a share of them 1647; 16 heads of 64 {3, 128, 2, 2} 553 (698), {2, 128, 2, 2} 614
#pragma once

namespace warpwatch {

struct FlashAttentionSm90aTile {
  int groups;
  int keys;
  int stages;        // of keys, and of values
  int query_stages;  // with 2, the next tile's queries arrive during all of this one's work
  int blocks = 1;    // on an SM
};

constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile128{2, 128, 2, 2};        // 192 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile256{2, 64, 2, 1};         // 192 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile64{3, 128, 2, 2};         // 112 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aBiasedTile64{2, 128, 2, 2};   // 96 KB; the bias takes keys / 4 registers
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aShortTile64{1, 64, 3, 2, 3};  // 64 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aFewTile64{1, 128, 2, 2, 2};   // 80 KB

// Short: causal sequences of fewer keys than this, whose masked corners weigh more, the more queries a tile has.
constexpr int kFlashAttentionSm90aLongKeys64 = 2048;
// Few: tiles of 64 queries that two rounds of blocks, or two on each SM, have done.
constexpr int kFlashAttentionSm90aFewTilesAnSm64 = 4;

}  // namespace warpwatch
