// The one file a tuner edits: how much of the problem a thread block holds, and into how many parts keys are divided.
//
// fp16 and bf16: the warps of a block take turns at tiles of 16 keys and 16 values, each warp with `stages` of them on the
// way in shared memory of its own, so that no warp waits for another before the end.
// Shared memory, in bytes: warps * stages * 64 * head_dim, on sm_75 half of it (head_dim 96 takes the space of 128).
// Registers per thread, in 32 bits: the output row_tiles * head_dim / 2, the queries row_tiles * head_dim / 4.
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct DecodeAttentionTile {
  int warps;
  int stages;
};

// sm_80 and newer: 96 KB a block. At 4.4 TB/s and 0.8 us of latency an H200 wants some 27 KB on the way to each SM; two
// blocks there keep 128 KB on the way (head_dim 128), the one block that sm_86, sm_89 and sm_120 have room for 64 KB.
// Evidence: one H200, fp16, one new token, CUDA graphs behind an L2 flush, the best number of parts of each tile, us:
//   head_dim 128, 8 key heads: 1 x 4096 keys {4, 3} 14.3, {4, 2} 14.2, {2, 3} 14.4, {8, 2} 15.0, {8, 3} 15.5, {4, 6} 15.9;
//   8 x 1024 17.9, 18.6, 17.9, 18.5, 18.7, 19.2; 8 x 16384 141.3, 140.8, 142.1, 150.4, 146.2, 144.3
//   head_dim 64, 12 key heads: 8 x 1024 keys {8, 3} 13.8, {4, 3} 14.6, {4, 4} 14.8, {8, 6} 15.1, {4, 6} 15.4; 1 x 1024 all 9.6
//   to 10.0
//
// Two row tiles beyond head_dim 64 leave no registers for the queries: these take
// 8 KB of shared memory, and a warp's ring its place, for the 99 KB that a block may have on sm_86.
constexpr DecodeAttentionTile decode_attention_sm80_tile(int head_dim, int row_tiles) {
  if (head_dim == 64) return row_tiles == 2 ? DecodeAttentionTile{4, 6} : DecodeAttentionTile{8, 3};
  if (row_tiles == 2) return {3, 3};
  if (head_dim == 256) return {2, 3};
  return {4, 3};
}

// sm_75: one stage, through registers, some 20 KB a block and two blocks an SM: at 300 GB/s and 0.6 us a T4 wants 4.5 KB on
// the way to each SM, and 8 warps with a tile of keys or of values each ask for 32 KB (head_dim 128).
constexpr DecodeAttentionTile decode_attention_sm75_tile(int head_dim) {
  return head_dim == 256 ? DecodeAttentionTile{2, 1} : DecodeAttentionTile{4, 1};
}

// Whether each warp holds the queries beside the output, scores and what sm_75 has in flight.
constexpr bool decode_attention_sm75_queries_in_registers(int head_dim, int row_tiles) {
  return row_tiles * head_dim <= 128;
}
constexpr bool decode_attention_sm80_queries_in_registers(int head_dim, int row_tiles) {
  return row_tiles == 1 || head_dim == 64;
}

// fp32 on the FP32 cores, any GPU: packed queries of a block, and its warps.
constexpr int kDecodeAttentionFp32Rows = 4;
constexpr int kDecodeAttentionFp32Warps = 4;

constexpr int kDecodeAttentionMostSplits = 256;

// Row tiles of 16 packed queries in a block. Two where there are more than 16: at head_dim 256 the output would not fit in
// registers, so there a second block reads the same keys and values, at about the same time and so out of L2.
constexpr int decode_attention_row_tiles(int rows, int head_dim) { return rows > 16 && head_dim <= 128 ? 2 : 1; }

// Packed queries of a block.
constexpr int decode_attention_block_rows(Dtype dtype, int rows, int head_dim) {
  return dtype == Dtype::kFloat32 ? kDecodeAttentionFp32Rows : 16 * decode_attention_row_tiles(rows, head_dim);
}

// What the keys are divided by: how many blocks an SM is meant to have at once, and what one costs beside its keys.
struct DecodeAttentionDivision {
  int blocks_per_sm;
  int start_in_keys = 48;
};

// Two blocks of 96 KB fit the 227 KB of sm_90 and sm_100, one the 100 to 164 KB of sm_80, sm_86, sm_89 and sm_120. But on sm_90
// one does what two do, and each part costs more than was thought. Evidence, as above, by the number of parts, us: 8 key heads
// of 4096 keys 16: 14.3, 33: 17.9; of 32768 16: 44.6, 33: 46.6; 64 of 1024 1: 17.9, 2: 18.3, 4: 18.8; 64 of 4096 2: 44.1,
// 4: 44.6; 96 of 1024, head_dim 64, 1: 15.4, 5: 19.2. The rest is reasoned.
constexpr DecodeAttentionDivision decode_attention_division(Dtype dtype, int compute_capability) {
  if (dtype == Dtype::kFloat32 || compute_capability < 80) return {2};
  if (compute_capability / 10 == 9) return {1, 192};
  return {compute_capability / 10 == 10 ? 2 : 1};
}

// Into how many parts the `keys` of each sequence, at most so many, are divided. `blocks` there are without dividing; the GPU holds `slots`.
// Of full waves 1, 2, ... of blocks the one is chosen whose time is shortest, counted in keys that a block walks over: its
// part, and start_in_keys for its start and end, and as much again for combining.
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
