// Tile sizes of decode_attention and the number of KV splits: the file to edit when tuning it.
//
// fp16 and bf16: the warps of a block take tiles of 16 keys and 16 values round-robin. Each warp keeps `stages` tiles in flight
// in its own shared memory, so no warp waits for another before the epilogue.
// Shared memory, in bytes: warps * stages * 64 * head_dim; half of it on sm_75 (head_dim 96 takes the space of 128).
// 32-bit registers per thread: output row_tiles * head_dim / 2, queries row_tiles * head_dim / 4.
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct DecodeAttentionTile {
  int warps;
  int stages;
};

// sm_80 and newer: 96 KB per block. By Little's law an H200 (4.4 TB/s, 0.8 us) needs about 27 KB in flight per SM. Two blocks
// per SM keep 128 KB in flight there (head_dim 128); the single block that fits on sm_86, sm_89 and sm_120 keeps 64 KB.
// Evidence: one H200, fp16, one new token, CUDA graphs, cold L2 (flushed), best number of splits per tile, us.
//   head_dim 128, 8 key heads    {4, 3}  {4, 2}  {2, 3}  {8, 2}  {8, 3}  {4, 6}
//   batch 1, 4096 keys            14.3    14.2    14.4    15.0    15.5    15.9
//   batch 8, 1024 keys            17.9    18.6    17.9    18.5    18.7    19.2
//   batch 8, 16384 keys          141.3   140.8   142.1   150.4   146.2   144.3
//
//   head_dim 64, 12 key heads    {8, 3}  {4, 3}  {4, 4}  {8, 6}  {4, 6}
//   batch 8, 1024 keys            13.8    14.6    14.8    15.1    15.4
//   batch 1, 1024 keys            all 9.6 to 10.0
//
// With two row tiles and head_dim above 64, no registers are left for the queries: they take 8 KB of shared memory, and one
// warp fewer has a ring, to stay within the 99 KB per block of sm_86.
constexpr DecodeAttentionTile decode_attention_sm80_tile(int head_dim, int row_tiles) {
  if (head_dim == 64) return row_tiles == 2 ? DecodeAttentionTile{4, 6} : DecodeAttentionTile{8, 3};
  if (row_tiles == 2) return {3, 3};
  if (head_dim == 256) return {2, 3};
  return {4, 3};
}

// sm_75: one stage, through registers, about 20 KB per block, two blocks per SM. A T4 (300 GB/s, 0.6 us) needs 4.5 KB in flight
// per SM; 8 warps with one tile of keys or values each keep 32 KB in flight (head_dim 128).
constexpr DecodeAttentionTile decode_attention_sm75_tile(int head_dim) {
  return head_dim == 256 ? DecodeAttentionTile{2, 1} : DecodeAttentionTile{4, 1};
}

// Whether each warp holds the queries in registers, next to the output, the scores and sm_75's loads in flight.
constexpr bool decode_attention_sm75_queries_in_registers(int head_dim, int row_tiles) {
  return row_tiles * head_dim <= 128;
}
constexpr bool decode_attention_sm80_queries_in_registers(int head_dim, int row_tiles) {
  return row_tiles == 1 || head_dim == 64;
}

// fp32 on the FP32 cores of any GPU: packed queries per block, and warps per block.
constexpr int kDecodeAttentionFp32Rows = 4;
constexpr int kDecodeAttentionFp32Warps = 4;

constexpr int kDecodeAttentionMostSplits = 256;

// Row tiles of 16 packed queries per block: two if there are more than 16 queries. At head_dim 256 the output would not fit in
// registers, so a second block reads the same keys and values, at about the same time and therefore from L2.
constexpr int decode_attention_row_tiles(int rows, int head_dim) { return rows > 16 && head_dim <= 128 ? 2 : 1; }

// Packed queries per block.
constexpr int decode_attention_block_rows(Dtype dtype, int rows, int head_dim) {
  return dtype == Dtype::kFloat32 ? kDecodeAttentionFp32Rows : 16 * decode_attention_row_tiles(rows, head_dim);
}

// Cost model of the number of splits: blocks per SM to aim for, and the fixed cost of a block in units of keys.
struct DecodeAttentionDivision {
  int blocks_per_sm;
  int start_in_keys = 48;
};

// Two blocks of 96 KB fit the 227 KB of sm_90 and sm_100, one fits the 100 to 164 KB of sm_80, sm_86, sm_89 and sm_120. On
// sm_90 one block per SM is nevertheless as fast as two, and each split costs more than the default. Evidence as above, us by
// number of splits; problems as key heads (over the batch) x keys. Values for other GPUs are reasoned, not measured.
//   8 x 4096                  16: 14.3   33: 17.9
//   8 x 32768                 16: 44.6   33: 46.6
//   64 x 1024                  1: 17.9    2: 18.3    4: 18.8
//   64 x 4096                  2: 44.1    4: 44.6
//   96 x 1024, head_dim 64     1: 15.4    5: 19.2
constexpr DecodeAttentionDivision decode_attention_division(Dtype dtype, int compute_capability) {
  if (dtype == Dtype::kFloat32 || compute_capability < 80) return {2};
  if (compute_capability / 10 == 9) return {1, 192};
  return {compute_capability / 10 == 10 ? 2 : 1};
}

// Number of splits of each sequence's keys, of which there are at most `keys`. `blocks`: grid size without splits; `slots`:
// blocks that the GPU runs at once. For each number of full waves, from the fewest on, it estimates the time in units of keys:
// per wave a split's keys plus start_in_keys for prologue and epilogue, and start_in_keys once for the combine kernel. It
// returns the number of splits with the shortest time.
constexpr int decode_attention_splits(int64_t blocks, int keys, int slots, int start_in_keys) {
  const int64_t most = keys / 64 < kDecodeAttentionMostSplits ? keys / 64 : kDecodeAttentionMostSplits;
  if (blocks == 0 || most <= 1) return 1;
  const int64_t fewest_waves = (blocks + slots - 1) / slots;
  int64_t best = 1;
  int64_t best_cost = fewest_waves * (keys + start_in_keys);
  for (int64_t waves = fewest_waves; waves < fewest_waves + 4; ++waves) {
    int64_t splits = waves * slots / blocks;
    if (splits > most) splits = most;
    if (splits <= 1) continue;
    const int64_t cost = waves * ((keys + splits - 1) / splits + start_in_keys) + start_in_keys;
    if (cost < best_cost) {
      best = splits;
      best_cost = cost;
    }
  }
  return static_cast<int>(best);
}

}  // namespace warpwatch
