// The one file a tuner edits: how much of the problem a thread block holds.
//
// A block of 32 * warps threads owns warps * rows_per_warp queries and walks over the keys, `keys` at a time.
// Registers per thread, in 32 bits: the output rows_per_warp * head_dim / 32, the scores rows_per_warp * keys / 32 and,
// when q_in_registers, the queries rows_per_warp * head_dim / 64.
// Shared memory, in bytes: 2 * head_dim * (queries + 2 * stages * keys) on sm_80, 2 * head_dim * max(queries, 2 * keys) when
// q_in_registers on sm_75, where a block may take 64 KB.
// Of head_dim 256 one row tile alone takes 128 registers of output: 8 warps of it fill an SM's registers.
// Evidence: one H200, 32 heads, full, latency by CUDA events behind an L2 flush, us:
//   head_dim 128, 64 keys: 1 stage 200 at 2048 queries and 430 at 4096 causal, 2 stages 189 and 398; 32 keys 216 and 461
//   head_dim 256: 8 warps of 32 keys 519 at 2048 queries, 4 warps of 64 keys, two blocks an SM, 433
#pragma once

namespace warpwatch {

struct FlashAttentionTile {
  int warps;
  int rows_per_warp;    // 16 or 32: one or two row tiles of an mma
  int keys;             // a multiple of 16
  bool q_in_registers;  // else each product reads its queries from shared memory again
  int stages = 1;       // of keys and values on sm_80: with 2, the next tile's arrive during all of this one's work

  constexpr bool operator==(const FlashAttentionTile&) const = default;
};

// sm_75: 64 KB of shared memory and 64 K registers an SM. Queries pass once through the space of keys and values and stay
// in registers; 64 keys and 64 values of 128 take 32 KB, so two blocks share an SM. Not measured on a T4 yet.
constexpr FlashAttentionTile flash_attention_sm75_tile(int head_dim) {
  if (head_dim == 256) return {4, 16, 16, false};  // beside 128 registers of output, 64 of queries would spill
  return {4, 16, 64, true};
}

// sm_80 and newer. Two row tiles a warp halve the key and value traffic from shared memory, which bounds one row tile:
// an ldmatrix.x4 takes 4 cycles of the SM and feeds 2 mma per row tile, which take 2 to 4 together.
// Queries of 128 do not fit in registers beside 32 x 128 outputs and 32 x 64 scores.
// Two blocks are wanted on an SM, which has 100 KB on sm_86, sm_89 and sm_120; of head_dim 256, 96 KB let one block in.
constexpr FlashAttentionTile flash_attention_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 32, 64, true, 2};   // 48 KB: two blocks on any of them
  if (head_dim == 96) return {4, 32, 64, false};     // 48 KB
  if (head_dim == 256) return {4, 16, 64, false};    // 96 KB
  return {4, 32, 32, false};                         // 48 KB
}

// Where two blocks of 96 KB fit an SM, 1 KB of each the system's: the 227 KB of sm_90 and sm_100, not the 164 KB of sm_80.
constexpr int kFlashAttentionHbmSharedBytes = 2 * (96 + 1) * 1024;
constexpr FlashAttentionTile kFlashAttentionHbmTile = {4, 32, 64, false, 2};  // 72 KB of head_dim 96, 96 KB of 128

// With a bias, which wants some 20 registers more: tiles of 32 keys have them to spare, and fit two to an SM on any of them.
constexpr FlashAttentionTile flash_attention_biased_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 32, 32, true, 2};   // 32 KB
  if (head_dim == 96) return {4, 32, 32, false, 2};  // 48 KB
  if (head_dim == 256) return {4, 16, 64, false};    // 96 KB
  return {4, 32, 32, false};                         // 48 KB
}

// fp32 on the CUDA cores. On sm_75 a block is (queries / 2) x 8 threads: 8 lanes share a pair of query rows.
constexpr int kFlashAttentionFp32Sm75Queries = 32;
constexpr int flash_attention_fp32_sm75_keys(int head_dim) {
  return head_dim == 256 ? 16 : 32;  // 52 KB of 256: a block on sm_75 may take 64
}

// fp32 on tensor cores (sm_80 and sm_90): a block of `warps` owns 16 * row_tiles * warps queries and walks over `keys` at a
// time. Shared memory, in bytes: 4 * (queries + 2 * keys) * (head_dim + 4).
struct FlashAttentionTf32Tile {
  int warps;
  int row_tiles;
  int keys;
  int steps;   // of 8 products that a tensor core adds up before fp32 does: 1 or 2
  int blocks;  // minimum per SM (__launch_bounds__)
};

// Evidence: one H200, 32 heads (16 of head_dim 256) of 2048 queries, full, and of 1024, causal (16 of head_dim 64), us:
//   64: {4, 1, 32, 2, 3} 590 and 69, {4, 2, 32, 2, 2} 555 and 89, {4, 1, 64, 2, 3} 634 and 83; CUDA cores 788 and 130
//   96: {4, 2, 32, 2, 2} 805, {4, 1, 32, 2, 3} 899, {4, 1, 64, 2, 2} 947; CUDA cores 1177
//   128: {4, 1, 32, 2, 2} 1160 and 178, {8, 1, 32, 2, 1} 1174 and 180, {4, 2, 32, 2, 1} 1089 and 288; CUDA cores 1577
//       and 238
//   256: {8, 1, 32, 2, 1} 1320, which sm_80 has no room for, {4, 1, 32, 2, 1} 1960; CUDA cores 1659
constexpr FlashAttentionTf32Tile flash_attention_tf32_tile(int head_dim, bool biased) {
  if (head_dim == 64) return {4, 1, 32, 2, biased ? 2 : 3};  // three blocks have no registers to spare for a bias
  if (head_dim == 256) return {8, 1, 16, 2, 1};
  return {4, 1, 32, 2, 2};
}

// fp32 on the CUDA cores of sm_86 and newer: a block of `warps` owns 4 * rows * warps / sharing queries and walks over
// 8 * keys * sharing keys at a time. Shared memory, in bytes: 4 * (queries * (head_dim + tile + sharing) +
// tile * (2 * head_dim + 8) + 4 * head_dim), tile being those keys.
struct FlashAttentionFp32Tile {
  int warps;
  int sharing;  // warps that have the same queries: each scores its part of the keys, and sums its part of the columns
  int rows;     // of a lane: a multiple of 4
  int keys;     // of a lane
};

// Within the 99 KB that a block may take there.
constexpr FlashAttentionFp32Tile flash_attention_fp32_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 1, 8, 6};
  if (head_dim == 96) return {4, 1, 8, 4};
  if (head_dim == 128) return {4, 1, 4, 6};
  return {2, 1, 4, 2};
}

}  // namespace warpwatch
