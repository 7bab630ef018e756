// Tile sizes of the backward pass: the one file to edit when tuning it.
//
// fp16 and bf16 by mma: a block of 32 * warps threads owns 16 * warps rows (queries for dq, keys for dk and dv) and loops over
// tiles of `columns` of the other side.
// 32-bit registers per thread: head_dim / 2 per gradient, columns / 2 each for weights and ds.
// Shared memory, in bytes: 4 * head_dim * (16 * warps + columns).
//
// Evidence: one H200, 32 heads of 2048 queries, full, CUDA events, cold L2 (flushed):
//
//   kernel  head_dim  columns   us        kernel  head_dim  columns   us
//   dq      64        64       196        dkdv    64        64       256
//   dq      64        128      173        dkdv    64        32       309
//   dq      128       64       348        dkdv    128       32       523
//   dq      128       32       401        dkdv    128       64       454
//   dq      8 warps: 10 to 20 % slower    dkdv    8 warps: 8 to 19 % slower
#pragma once

namespace warpwatch {

struct FlashAttentionBackwardTile {
  int warps;
  int columns;  // a multiple of 16
};

// At most 96 KB (head_dim 256): sm_86, sm_89 and sm_120 have 99 KB of shared memory per block.
constexpr FlashAttentionBackwardTile flash_attention_dq_tile(int head_dim) {
  return {4, head_dim == 256 ? 32 : head_dim == 64 ? 128 : 64};
}
// At head_dim 128, dk and dv leave just enough registers for weights and ds of 64 columns. At 256, one kernel per gradient.
constexpr FlashAttentionBackwardTile flash_attention_dkdv_tile(int head_dim) {
  return {4, head_dim == 256 ? 32 : 64};
}

// sm_75: 64 KB of shared memory per SM, all of which one block may take. At head_dim 64 two blocks share an SM; at 256 a block
// of 2 warps is the largest that fits. Not measured on a T4 yet.
constexpr FlashAttentionBackwardTile flash_attention_dq_sm75_tile(int head_dim) {
  return head_dim == 256 ? FlashAttentionBackwardTile{2, 32} : FlashAttentionBackwardTile{4, 64};
}
// Shared memory also holds the shift and delta of each query, so the tiles themselves must stay below 64 KB.
constexpr FlashAttentionBackwardTile flash_attention_dkdv_sm75_tile(int head_dim) {
  return head_dim == 256 ? FlashAttentionBackwardTile{2, 16} : FlashAttentionBackwardTile{4, head_dim == 96 ? 64 : 32};
}

// fp32 on tensor cores (sm_80 and sm_90): a block of `warps` owns 16 * row_tiles * warps rows. At head_dim 256, dk and dv would
// take all registers, so the CUDA-core kernels below run it. Shared memory, in bytes: 8 * (owned + columns) * (head_dim + 4).
//
// Evidence: one H200, us; full: 32 heads of 2048 queries; causal: 32 heads of 1024 (16 heads at head_dim 64). Measured with
// steps = 1; steps = 2 in the table below was chosen later.
//
//   kernel  head_dim  tile               full   causal
//   dq      64        {4, 1, 64, 1, 2}   1108   120
//   dq      64        {4, 1, 32, 1, 3}   1176   145
//   dq      64        CUDA cores                176
//   dq      128       {4, 1, 32, 1, 2}   1951   282
//   dq      128       {8, 1, 32, 1, 1}          364
//   dq      128       {4, 2, 32, 1, 1}          436
//   dq      128       CUDA cores         3653   508
//   dkdv    64        {4, 1, 64, 1, 2}   1532   171
//   dkdv    64        {4, 1, 32, 1, 3}   1602   200
//   dkdv    128       {4, 1, 32, 1, 2}   2796   400
//   dkdv    128       {4, 1, 16, 1, 2}   3210   460
//   dkdv    128       {8, 1, 32, 1, 1}          500
//   dkdv    128       CUDA cores         5191   674
struct FlashAttentionBackwardTf32Tile {
  int warps;
  int row_tiles;
  int columns;
  int steps;   // k8 steps that the tensor core accumulates before an fp32 addition: 1 or 2
  int blocks;  // minimum per SM (__launch_bounds__)
};
constexpr FlashAttentionBackwardTf32Tile flash_attention_backward_tf32_tile(int head_dim) {
  return {4, 1, head_dim == 64 ? 64 : 32, 2, 2};
}

// fp32 on the CUDA cores: a block of `warps` owns 4 * rows * warps / sharing rows and loops over tiles of
// 8 * columns * sharing columns. Registers per thread: rows * head_dim / (8 * sharing) per gradient, rows * columns each for
// weights and ds. Shared memory, in bytes: about 4 * (2 * (owned + step) * (head_dim + 4) + owned * (step + 8)).
struct FlashAttentionBackwardFp32Tile {
  int warps;
  int sharing;  // warps that own the same rows: each scores its share of the columns and sums its share of head_dim
  int rows;     // per lane
  int columns;  // per lane
};

// Fits the 64 KB of shared memory per block of sm_75. Not measured on a T4 yet.
constexpr FlashAttentionBackwardFp32Tile flash_attention_backward_fp32_sm75_tile(int head_dim) {
  if (head_dim == 64) return {4, 1, 4, 4};
  if (head_dim == 96) return {2, 1, 4, 4};
  if (head_dim == 128) return {4, 2, 4, 1};
  return {4, 1, 1, 1};
}
// Fits the 99 KB of shared memory per block of sm_86, sm_89 and sm_120.
constexpr FlashAttentionBackwardFp32Tile flash_attention_backward_fp32_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 2, 8, 4};
  if (head_dim == 96) return {4, 1, 4, 4};
  if (head_dim == 128) return {4, 1, 4, 2};
  return {4, 2, 2, 1};
}
// Fits the 227 KB of sm_90. Evidence: one H200, CUDA events, cold L2 (flushed); TFLOP/s of three products (dq) and four (dkdv).
// Full: 4096 / head_dim heads of 2048 queries; causal: 16 heads of 1024.
//
//   head_dim  tile          full: dq  dkdv   causal: dq  dkdv
//   64        {4, 1, 8, 4}     34.0   36.2      11.1     12.3     128 rows per block: too few blocks when causal
//   64        {4, 2, 8, 4}     33.1   34.3      17.7     19.1
//   64        {4, 2, 4, 4}     31.9   32.6      22.1     23.0
//   96        {8, 1, 4, 8}     30.6   31.2
//   96        {6, 3, 8, 2}     28.4   30.6
//   96        {4, 1, 4, 8}     26.9   27.9
//   128       {4, 2, 8, 2}     33.3   34.2
//   128       {4, 1, 4, 4}     32.9   33.7
//   128       {8, 2, 8, 2}     31.7   33.0
//   128       {8, 2, 4, 4}     30.5   31.8
//   256       {8, 2, 4, 2}     27.8   27.5
//   256       {4, 4, 8, 2}     27.5   28.3
//   256       {8, 4, 4, 2}     24.1   28.0
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

constexpr int kFlashAttentionDeltaThreads = 256;  // one warp per query

}  // namespace warpwatch
