// Tile sizes of the forward pass: the file to edit when tuning it (Hopper's wgmma kernel: flash_attention_sm90a_tiles.h).
//
// fp16 and bf16 by mma: a block of 32 * warps threads owns warps * rows_per_warp queries and loops over the keys, `keys` at a
// time.
// 32-bit registers per thread: output rows_per_warp * head_dim / 32, scores rows_per_warp * keys / 32 and, with q_in_registers,
// queries rows_per_warp * head_dim / 64. At head_dim 256, a single row tile takes 128 registers of output: 8 such warps fill an
// SM's register file.
// Shared memory, in bytes: sm_80 2 * head_dim * (queries + 2 * stages * keys); sm_75 with q_in_registers
// 2 * head_dim * max(queries, 2 * keys), at most 64 KB per block.
//
// Evidence: one H200, 32 heads, CUDA events, cold L2 (flushed), us:
//   head_dim  tile                                        2048 full   4096 causal
//   128       64 keys, 1 stage                               200          430
//   128       64 keys, 2 stages                              189          398
//   128       32 keys                                        216          461
//   256       8 warps, 32 keys                               519
//   256       4 warps, 64 keys, two blocks per SM            433
#pragma once

namespace warpwatch {

struct FlashAttentionTile {
  int warps;
  int rows_per_warp;    // 16 or 32: one or two mma row tiles
  int keys;             // a multiple of 16
  bool q_in_registers;  // else each product reloads the queries from shared memory
  int stages = 1;       // of keys and values on sm_80; 2: a whole tile loads during the previous one

  constexpr bool operator==(const FlashAttentionTile&) const = default;
};

// sm_75: 64 KB of shared memory and 64 K registers per SM. The queries pass through the buffer of keys and values once and stay
// in registers; 64 keys and 64 values of head_dim 128 take 32 KB, so two blocks share an SM. Not measured on a T4 yet.
constexpr FlashAttentionTile flash_attention_sm75_tile(int head_dim) {
  if (head_dim == 256) return {4, 16, 16, false};  // with 128 registers of output, 64 of queries would spill
  return {4, 16, 64, true};
}

// sm_80 and newer. One row tile per warp is bound by shared-memory reads: an ldmatrix.x4 takes 4 cycles of the SM and feeds 2
// mma per row tile, which take 2 to 4 cycles together. Two row tiles halve the key and value reads.
// At head_dim 128, queries do not fit in registers next to 32 x 128 outputs and 32 x 64 scores.
// Occupancy: sm_86, sm_89 and sm_120 have 100 KB of shared memory per SM, enough for two blocks; one at head_dim 256 (96 KB).
constexpr FlashAttentionTile flash_attention_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 32, 64, true, 2};   // 48 KB: two blocks per SM on all of them
  if (head_dim == 96) return {4, 32, 64, false};     // 48 KB
  if (head_dim == 256) return {4, 16, 64, false};    // 96 KB
  return {4, 32, 32, false};                         // 48 KB
}

// GPUs with room for two 96 KB blocks per SM, each plus 1 KB reserved by the system: sm_90
// and sm_100 (227 KB), not sm_80 (164 KB).
constexpr int kFlashAttentionHbmSharedBytes = 2 * (96 + 1) * 1024;
constexpr FlashAttentionTile kFlashAttentionHbmTile = {4, 32, 64, false, 2};  // 72 KB at head_dim 96, 96 KB at 128

// With a bias, which takes about 20 more registers: tiles of 32 keys have them, and two
// blocks share an SM on all of these GPUs.
constexpr FlashAttentionTile flash_attention_biased_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 32, 32, true, 2};   // 32 KB
  if (head_dim == 96) return {4, 32, 32, false, 2};  // 48 KB
  if (head_dim == 256) return {4, 16, 64, false};    // 96 KB
  return {4, 32, 32, false};                         // 48 KB
}

// fp32 on the CUDA cores of sm_75. A block has (queries / 2) x 8 threads: 8 lanes share a pair of query rows.
constexpr int kFlashAttentionFp32Sm75Queries = 32;
constexpr int flash_attention_fp32_sm75_keys(int head_dim) {
  return head_dim == 256 ? 16 : 32;  // at 256 52 KB of the 64 KB per block of sm_75
}

// fp32 on tensor cores (sm_80 and sm_90): a block of `warps` owns 16 * row_tiles * warps queries and loops over the keys,
// `keys` at a time. Shared memory, in bytes: 4 * (queries + 2 * keys) * (head_dim + 4).
struct FlashAttentionTf32Tile {
  int warps;
  int row_tiles;
  int keys;
  int steps;   // k8 steps that the tensor core accumulates before an fp32 addition: 1 or 2
  int blocks;  // minimum per SM (__launch_bounds__)
};

// Evidence: one H200, us. Full: 32 heads of 2048 queries (16 at head_dim 256). Causal: 32 heads of 1024 (16 at head_dim 64).
//   head_dim  tile               full   causal
//   64        {4, 1, 32, 2, 3}    590     69
//   64        {4, 2, 32, 2, 2}    555     89
//   64        {4, 1, 64, 2, 3}    634     83
//   64        CUDA cores          788    130
//   96        {4, 2, 32, 2, 2}    805
//   96        {4, 1, 32, 2, 3}    899
//   96        {4, 1, 64, 2, 2}    947
//   96        CUDA cores         1177
//   128       {4, 1, 32, 2, 2}   1160    178
//   128       {8, 1, 32, 2, 1}   1174    180
//   128       {4, 2, 32, 2, 1}   1089    288
//   128       CUDA cores         1577    238
//   256       {8, 1, 32, 2, 1}   1320            does not fit sm_80's shared memory
//   256       {4, 1, 32, 2, 1}   1960
//   256       CUDA cores         1659
constexpr FlashAttentionTf32Tile flash_attention_tf32_tile(int head_dim, bool biased) {
  if (head_dim == 64) return {4, 1, 32, 2, biased ? 2 : 3};  // with a bias, three blocks have too few registers
  if (head_dim == 256) return {8, 1, 16, 2, 1};
  return {4, 1, 32, 2, 2};
}

// fp32 on the CUDA cores of sm_86 and newer: a block of `warps` owns 4 * rows * warps / sharing queries and loops over tiles of
// tile = 8 * keys * sharing keys. Shared memory, in bytes: 4 * (queries * (head_dim + tile + sharing) +
// tile * (2 * head_dim + 8) + 4 * head_dim).
struct FlashAttentionFp32Tile {
  int warps;
  int sharing;  // warps that own the same queries: each scores its share of the keys and sums its share of the columns
  int rows;     // per lane: a multiple of 4
  int keys;     // per lane
};

// Fits 99 KB of shared memory per block.
constexpr FlashAttentionFp32Tile flash_attention_fp32_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 1, 8, 6};
  if (head_dim == 96) return {4, 1, 8, 4};
  if (head_dim == 128) return {4, 1, 4, 6};
  return {2, 1, 4, 2};
}

}  // namespace warpwatch
