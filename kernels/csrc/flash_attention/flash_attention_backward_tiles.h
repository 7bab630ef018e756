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

// sm_75: 64 KB of shared memory an SM, and a block may take all of it. Two blocks of head_dim 64 share an SM; of 256, 2 warps
// own what fits. Not measured on a T4 yet.
constexpr FlashAttentionBackwardTile flash_attention_dq_sm75_tile(int head_dim) {
  return head_dim == 256 ? FlashAttentionBackwardTile{2, 32} : FlashAttentionBackwardTile{4, 64};
}
// Beside the tiles lie the shift and delta of each query, so 64 KB of tiles would be too much.
constexpr FlashAttentionBackwardTile flash_attention_dkdv_sm75_tile(int head_dim) {
  return head_dim == 256 ? FlashAttentionBackwardTile{2, 16} : FlashAttentionBackwardTile{4, head_dim == 96 ? 64 : 32};
}

// fp32 on tensor cores (sm_80 and sm_90), all but head_dim 256, whose dk and dv would take all registers: a block of `warps`
// owns 16 * row_tiles * warps rows. Shared memory, in bytes: 8 * (owned + columns) * (head_dim + 4).
// Evidence: one H200, 32 heads of 2048 queries, full, and of 1024, causal (16 of head_dim 64), us, all in one step (the tile's two
// came after):
//   dq, 64: {4, 1, 64, 1, 2} 1108 and 120, {4, 1, 32, 1, 3} 1176 and 145; CUDA cores 176 at 1024
//   dq, 128: {4, 1, 32, 1, 2} 1951 and 282, {8, 1, 32, 1, 1} 364 and {4, 2, 32, 1, 1} 436 at 1024; CUDA cores 3653 and 508
//   dkdv, 64: {4, 1, 64, 1, 2} 1532 and 171, {4, 1, 32, 1, 3} 1602 and 200
//   dkdv, 128: {4, 1, 32, 1, 2} 2796 and 400, {4, 1, 16, 1, 2} 3210 and 460, {8, 1, 32, 1, 1} 500 at 1024; CUDA cores 5191
//       and 674
struct FlashAttentionBackwardTf32Tile {
  int warps;
  int row_tiles;
  int columns;
  int steps;   // of 8 products that a tensor core adds up before fp32 does: 1 or 2
  int blocks;  // minimum per SM (__launch_bounds__)
};
constexpr FlashAttentionBackwardTf32Tile flash_attention_backward_tf32_tile(int head_dim) {
  return {4, 1, head_dim == 64 ? 64 : 32, 2, 2};
}

// fp32 on the CUDA cores: a block of `warps` owns 4 * rows * warps / sharing rows and walks over
// 8 * columns * sharing of the others at a time. Registers per thread: each gradient rows * head_dim / (8 * sharing), weights
// and ds rows * columns each. Shared memory, in bytes, about 4 * (2 * (owned + step) * (head_dim + 4) + owned * (step + 8)).
struct FlashAttentionBackwardFp32Tile {
  int warps;
  int sharing;  // warps that have the same rows: each scores its part of the columns, and sums its part of head_dim
  int rows;     // of a lane
  int columns;  // of a lane
};

// Within the 64 KB that a block may take on sm_75. Not measured on a T4 yet.
constexpr FlashAttentionBackwardFp32Tile flash_attention_backward_fp32_sm75_tile(int head_dim) {
  if (head_dim == 64) return {4, 1, 4, 4};
  if (head_dim == 96) return {2, 1, 4, 4};
  if (head_dim == 128) return {4, 2, 4, 1};
  return {4, 1, 1, 1};
}
// Within the 99 KB that a block may take on sm_86, sm_89 and sm_120.
constexpr FlashAttentionBackwardFp32Tile flash_attention_backward_fp32_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 2, 8, 4};
  if (head_dim == 96) return {4, 1, 4, 4};
  if (head_dim == 128) return {4, 1, 4, 2};
  return {4, 2, 2, 1};
}
// Within the 227 KB of sm_90. Evidence: one H200, 4096 / head_dim heads of 2048 queries, full, TFLOP/s of three products (dq)
// and of four (dkdv), by CUDA events behind an L2 flush:
//   64: {4, 1, 8, 4} 34.0 and 36.2, {4, 2, 8, 4} 33.1 and 34.3, {4, 2, 4, 4} 31.9 and 32.6; but 16 heads of 1024, causal,
//       give a block of 128 rows too few others: {4, 1, 8, 4} 11.1 and 12.3, {4, 2, 8, 4} 17.7 and 19.1, {4, 2, 4, 4} 22.1
//       and 23.0
//   96: {8, 1, 4, 8} 30.6 and 31.2, {6, 3, 8, 2} 28.4 and 30.6, {4, 1, 4, 8} 26.9 and 27.9
//   128: {4, 2, 8, 2} 33.3 and 34.2, {4, 1, 4, 4} 32.9 and 33.7, {8, 2, 8, 2} 31.7 and 33.0, {8, 2, 4, 4} 30.5 and 31.8
//   256: {8, 2, 4, 2} 27.8 and 27.5, {4, 4, 8, 2} 27.5 and 28.3, {8, 4, 4, 2} 24.1 and 28.0
constexpr FlashAttentionBackwardFp32Tile flash_attention_dq_fp32_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {4, 2, 4, 4};
  if (head_dim == 96) return {8, 1, 4, 8};
  if (head_dim == 128) return {4, 2, 8, 2};
  return {8, 2, 4, 2};
}
constexpr FlashAttentionBackwardFp32Tile flash_attention_dkdv_fp32_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {4, 2, 4, 4};
  if (head_dim == 96) return {8, 1, 4, 8};
  if (head_dim == 128) return {4, 2, 8, 2};
  return {4, 4, 8, 2};
}

constexpr int kFlashAttentionDeltaThreads = 256;  // a warp a query

}  // namespace warpwatch
