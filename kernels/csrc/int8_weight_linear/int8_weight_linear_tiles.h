// Tile sizes of int8_weight_linear and the rules that choose among them: the file to edit when tuning it.
#pragma once

#include <cstdint>

namespace warpwatch {

// A block owns 16 outputs for 8 * x_tiles rows of x, and its warps take chunks of 64 of k round-robin. Each thread keeps
// `depth` chunks of weights in flight, 32 bytes each.
struct Int8WeightTile {
  int x_tiles;
  int warps;
  int depth;
  int blocks_per_sm;  // minimum per SM (__launch_bounds__)
};

// By Little's law an H200 (4.4 TB/s, 0.7 us) needs about 24 KB in flight per SM; one of these blocks keeps 32 KB in flight.
// Reasoned, not measured yet on any chip.
constexpr Int8WeightTile kInt8WeightTiles[] = {{1, 8, 4, 2}, {2, 8, 4, 2}};

// Index into kInt8WeightTiles. Beyond 16 rows, several blocks read the same weights, all but the first from L2.
constexpr int int8_weight_tile(int m) { return m <= 8 ? 0 : 1; }

// Hopper: one consumer warpgroup per 64 outputs, and producer warps. `splits` blocks, a cluster, split k.
struct Int8WeightWgmmaTile {
  int outputs, rows;
  int stages;  // slabs of 128 of k in shared memory
  int splits;
  int blocks_per_sm;
};

// Evidence: one H200, cold L2, standalone harness, 4096 x 4096, 128 rows: 16.2 us with the last tile, 20.8 with the one before
// it. Many rows run tall_product.h.
constexpr Int8WeightWgmmaTile kInt8WeightWgmmaTiles[] = {
    {64, 16, 8, 1, 2}, {64, 16, 8, 2, 2},   {64, 32, 6, 1, 2},   {64, 32, 6, 2, 2},   {128, 64, 7, 1, 1},
    {64, 64, 4, 2, 2}, {128, 128, 4, 1, 1}, {128, 128, 4, 2, 1}, {64, 128, 5, 2, 1}};

// Index into kInt8WeightWgmmaTiles: a tile for this number of rows; k is split if there are too few tiles to give most SMs one.
constexpr int int8_weight_wgmma_tile(int m, int n, int multiprocessors) {
  const auto enough = [&](int index) {
    const Int8WeightWgmmaTile& tile = kInt8WeightWgmmaTiles[index];
    const int64_t tiles = ((static_cast<int64_t>(m) + tile.rows - 1) / tile.rows) *
                          ((static_cast<int64_t>(n) + tile.outputs - 1) / tile.outputs);
    return 4 * tiles * tile.splits >= 3 * static_cast<int64_t>(multiprocessors);
  };
  if (m <= 16) return enough(0) ? 0 : 1;
  if (m <= 32) return enough(2) ? 2 : 3;
  if (m <= 64) return enough(4) ? 4 : 5;
  if (enough(6)) return 6;
  return enough(7) ? 7 : 8;
}

}  // namespace warpwatch
