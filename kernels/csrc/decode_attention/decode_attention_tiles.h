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
// Reasoned, not measured yet on any chip.
//
// Two row tiles beyond head_dim 64 leave no registers for the queries: these take
// 8 KB of shared memory, and a warp's ring its place, for the 99 KB that a block may have on sm_86.
constexpr DecodeAttentionTile decode_attention_sm80_tile(int head_dim, int row_tiles) {
  if (head_dim == 64) return {4, 6};
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

// fp32 on the ordinary units, any GPU: packed queries of a block, and its warps.
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

// Blocks that an SM holds at once: two blocks of 96 KB fit the 227 KB of sm_90 and sm_100, one the 100 to 164 KB of sm_80,
// sm_86, sm_89 and sm_120.
constexpr int decode_attention_blocks_per_sm(Dtype dtype, int compute_capability) {
  if (dtype == Dtype::kFloat32 || compute_capability < 80) return 2;
  return compute_capability / 10 == 9 || compute_capability / 10 == 10 ? 2 : 1;
}

// Into how many parts the `keys` of each sequence, at most so many, are divided. `blocks` there are without dividing; the GPU holds `slots`.
// Of full waves 1, 2, ... of blocks the one is chosen whose time is shortest, counted in keys that a block walks over: its
// part, and some 48 for its start and end, and as much again for combining. Reasoned, not measured yet.
constexpr int decode_attention_splits(int64_t blocks, int keys, int slots) {
  constexpr int64_t kStartInKeys = 48;
  const int64_t most = keys / 64 < kDecodeAttentionMostSplits ? keys / 64 : kDecodeAttentionMostSplits;
  if (blocks == 0 || most <= 1) return 1;
  const int64_t fewest_waves = (blocks + slots - 1) / slots;
  int64_t best = 1;
  int64_t best_cost = fewest_waves * (keys + kStartInKeys);
  for (int64_t waves = fewest_waves; waves < fewest_waves + 4; ++waves) {
    int64_t splits = waves * slots / blocks;
    if (splits > most) splits = most;
    if (splits <= 1) continue;
    const int64_t cost = waves * ((keys + splits - 1) / splits + kStartInKeys) + kStartInKeys;
    if (cost < best_cost) {
      best = splits;
      best_cost = cost;
    }
  }
  return static_cast<int>(best);
}

}  // namespace warpwatch
