// The one file a tuner edits: how the kernels divide their work.
#pragma once

#include <cstdint>

namespace warpwatch {

// Few rows of x: a block owns 16 outputs for all of x, and its warps take turns at chunks of 64 bytes of k. Each thread
// keeps `depth` chunks of weights in flight, 32 bytes apiece.
struct Int8DecodeTile {
  int x_tiles;  // of 8 rows
  int warps;
  int depth;
  int blocks_per_sm;  // the compiler keeps registers few enough for these
};

// At 4.4 TB/s and 0.7 us of latency an H200 wants about 24 KB in flight on each SM; one of these blocks asks for 32 KB.
// Reasoned, not measured yet on any chip.
constexpr Int8DecodeTile kInt8DecodeTiles[] = {{1, 8, 4, 2}, {2, 8, 4, 2}};

// Most rows of x that the decode kernel takes; more go to the batch kernel.
constexpr int kInt8DecodeRows = 16;

// An index into kInt8DecodeTiles.
constexpr int int8_decode_tile(int m) { return m <= 8 ? 0 : 1; }

// More rows: a block owns `rows` rows of x by `outputs` outputs, shared among 8 warps.
struct Int8BatchTile {
  int rows, outputs;
  int warps_along_rows, warps_along_outputs;
  int stages;         // slabs of 128 bytes of k in shared memory
  int blocks_per_sm;  // the compiler keeps registers few enough for these
};

// From sm_80 on. 3 stages of 32 KB are what an RTX (99 KB a block) has room for; an H200 fits two such blocks on an SM.
// Warps of 64 x 32 sums read 3 KB of shared memory for 64 Ki products, which is about half of what an H200's mma.sync
// could take. Reasoned, not measured yet on any chip.
constexpr Int8BatchTile kInt8BatchTilesSm80[] = {{32, 128, 1, 8, 4, 1}, {64, 128, 2, 4, 4, 1}, {128, 128, 2, 4, 3, 2}};

// Turing has 64 KB of shared memory and no cp.async: two stages, the next one in registers.
constexpr Int8BatchTile kInt8BatchTilesSm75[] = {{64, 128, 2, 4, 2, 1}};

// Hopper: four warps to every 64 rows, and one that copies. `splits` blocks, a cluster, divide k among them.
struct Int8WgmmaTile {
  int rows, outputs;
  int stages;  // slabs of 128 bytes of k in shared memory
  int splits;
};

// Measured on an H200, cold L2, standalone harness, with the launch that quantizes, in us: 4096 x 4096 and 256 rows 19.5
// with the last tile, 23.4 with the fourth; 512 rows 23.2 with the third, 32.4 with the fifth, which 2048 rows take (64.3,
// and 72.0 with the third). Of clusters of four only 30 fit that GPU at a time, of clusters of two 66.
constexpr Int8WgmmaTile kInt8WgmmaTiles[] = {
    {64, 64, 6, 1}, {64, 64, 12, 2}, {128, 128, 6, 1}, {128, 64, 8, 2}, {256, 128, 4, 1}, {128, 128, 6, 2}};

// An index into kInt8WgmmaTiles: the largest one that still gives most multiprocessors a block, k undivided if possible.
constexpr int int8_wgmma_tile(int m, int n, int multiprocessors) {
  const auto enough = [&](int index) {
    const Int8WgmmaTile& tile = kInt8WgmmaTiles[index];
    const int64_t tiles = ((static_cast<int64_t>(m) + tile.rows - 1) / tile.rows) *
                          ((static_cast<int64_t>(n) + tile.outputs - 1) / tile.outputs);
    return 4 * tiles * tile.splits >= 3 * static_cast<int64_t>(multiprocessors);
  };
  if (m <= 64) return enough(0) ? 0 : 1;
  if (m > 128 && enough(4)) return 4;
  if (enough(2)) return 2;
  return m > 128 && enough(5) ? 5 : 3;
}

// An index into the table of the architecture.
constexpr int int8_batch_tile(bool sm80, int m) { return !sm80 || m <= 32 ? 0 : m <= 64 ? 1 : 2; }

// How a call is cut.
struct Int8Plan {
  int tile;          // of the batch kernel
  int splits;        // blocks that share one tile by dividing k between them
  int64_t tiles;     // blocks, but for the splits
  int64_t partials;  // 32-bit sums that the splits leave for each other: 0 without splits
};

// k is divided only where the tiles leave GPUs idle, and then so that all blocks still run at the same time. A part is
// at least four slabs of 128 long: below that its own start and the exchange of sums cost more than it brings.
constexpr Int8Plan int8_linear_plan(bool sm80, int m, int n, int padded_k, int multiprocessors) {
  if (m <= kInt8DecodeRows) return {0, 1, 0, 0};
  const int index = int8_batch_tile(sm80, m);
  const Int8BatchTile tile = sm80 ? kInt8BatchTilesSm80[index] : kInt8BatchTilesSm75[index];
  const int64_t tiles = ((static_cast<int64_t>(m) + tile.rows - 1) / tile.rows) *
                        ((static_cast<int64_t>(n) + tile.outputs - 1) / tile.outputs);
  const int64_t wanted = multiprocessors / tiles;
  const int64_t most = (padded_k + 127) / 128 / 4;
  const int64_t splits = wanted < most ? wanted : most;
  if (splits < 2) return {index, 1, tiles, 0};
  return {index, static_cast<int>(splits), tiles, tiles * splits * tile.rows * tile.outputs};
}

}  // namespace warpwatch
