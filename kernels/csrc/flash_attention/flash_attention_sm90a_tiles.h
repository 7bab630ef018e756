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
//   54 / 48; 32 of 4096, causal, 168 / 151, - / 158, 194 / 167, 193 / 177; head_dim 256: 16 heads of 2048, causal, 71 / 63,
//   2 x 16 of 1024, full, 66 / 61
//   Tried on it and dropped: one pipeline over the tiles of queries and of keys, where the next queries' first product is under
//   way with the last values: head_dim 128, causal, 32 heads of 2048 72.6 instead of 71.2, full, 1024 35.7 instead of 34.2. Two
//   groups already fill each other's gaps.
//   16 packed sequences of 32 to 4096, causal: 32 heads of 128 over 8 key heads 1464 (sm_80's kernel 2404), as one block a
//   tile instead of a share of them 1647; 16 heads of 64 {3, 128, 2, 2} 553 (698), {2, 128, 2, 2} 614
//   One H200, behind an L2 flush, the same lengths, 32 heads of 128, over 32 and 8 key heads: equal shares of the tiles in a fixed
//   order 680 and 652, tiles fetched one after the other 556 and 550, those of a kernel without a window 545 and 534,
//   FlashAttention 3 553 and 529
//   One H100, behind an L2 flush, of problems that the windowed kernel works on though they have none (head_dim 256, a bias),
//   their tiles as one section or in rounds of heads, before / after: 16 heads of 2048 of 256, causal, 107.7 / 68.3;
//   4 x 32 heads of 1024 of 128, full, with a bias, 227.9 / 214.5
//   One H100, behind an L2 flush, problems as batch x heads of queries:
//   head_dim 64, full, 16 x 32 of 512: {3, 128, 2, 2} 101.3, {4, 64, 4, 1} 98.6, {4, 64, 4, 2} 87.5, {4, 64, 6, 2} 86.7,
//   {3, 64, 4, 2} 104; {3, 128, 2, 2} / {4, 64, 6, 2}: 8 x 16 of 1024 90.5 / 78.8, 32 of 2048 81.8 / 74.1, 32 of 4096 284 / 260,
//   4 x 32 of 640 45.8 / 42.6; 32 of 1024 {1, 128, 2, 2, 2} 28.3, {4, 64, 6, 2} 26.1
//   head_dim 64, causal: {3, 128, 2, 2} / {4, 64, 6, 2}: 32 of 2048 52.7 / 49.5, 32 of 4096 163 / 154;
//   {1, 64, 3, 2, 3} / {4, 64, 6, 2}: 16 x 32 of 512 77.5 / 82.6, 8 x 12 of 1024 45.4 / 48.2, 8 x 16 of 1024 61.9 / 58.7;
//   16 x 32 of 512 {1, 64, 4, 1, 3} 82.5, {1, 64, 6, 2, 2} 120
//   head_dim 128, full, {2, 128, 2, 2} / {2, 64, 4, 2} / {2, 64, 5, 2}: 32 of 512 17.0 / 16.6 / 16.6, of 1024 38.1 / 36.8 /
//   36.3, of 2048 115 / 119 / 119, 4 x 32 of 1024 127 / 129 / 130
//   head_dim 128, causal, {2, 128, 2, 2} / {1, 64, 2, 2, 2}: 8, 16, 32 of 512 15.2 / 12.5, 16.3 / 13.8, 19.0 / 17.5, 8 of 1024
//   21.6 / 18.1, 4 of 2048 31.8 / 26.9, 32 of 1024 29.4 / 31.0, where {2, 64, 5, 2} takes 28.9; 32 of 512 {1, 64, 3, 1, 2} 20.2,
//   {1, 128, 1, 1, 2} 18.5, tiles paired so that an SM has a long and a short one 17.9
//   Tried and dropped: fetching keys and values of this round and the next into the L2 ahead, {2, 128, 2, 1}, 32 heads of 1024 of
//   128, full, 38.8 / 41.6
#pragma once

namespace warpwatch {

struct FlashAttentionSm90aTile {
  int groups;
  int keys;
  int stages;        // of keys, and of values
  int query_stages;  // with 2, the next tile's queries arrive during all of this one's work
  int blocks = 1;    // on an SM
};

constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile128{2, 128, 2, 2};         // 192 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aDeepTile128{2, 64, 5, 2};      // 224 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aFewTile128{1, 64, 2, 2, 2};    // 96 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile256{2, 64, 2, 1};          // 192 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile64{4, 64, 6, 2};           // 160 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aWindowedTile64{3, 128, 2, 2};  // 112 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aBiasedTile64{2, 128, 2, 2};    // 96 KB; the bias takes keys / 4 registers
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aShortTile64{1, 64, 3, 2, 3};   // 64 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aFewTile64{1, 128, 2, 2, 2};    // 80 KB

// Few: tiles of 64 queries that two blocks on each SM have done in one round; of head_dim 64 and under its causal mask in two.
constexpr int kFlashAttentionSm90aFewTilesAnSm = 2;
constexpr int kFlashAttentionSm90aFewCausalTilesAnSm64 = 4;
// Deep: no more rounds than this of tiles of 128 queries, and no more keys: those that come from memory are asked for earlier.
constexpr int kFlashAttentionSm90aDeepRounds128 = 2;
constexpr int kFlashAttentionSm90aDeepKeys128 = 1024;
// Short: causal sequences of fewer keys than this, whose masked corners weigh more, the more queries a tile has.
constexpr int kFlashAttentionSm90aLongKeys64 = 2048;

}  // namespace warpwatch
