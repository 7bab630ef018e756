// The one file a tuner edits: how the kernel divides its work.
#pragma once

namespace warpwatch {

// A block owns 16 outputs for 8 * x_tiles rows of x, and its warps take turns at chunks of 64 of k. Each thread keeps
// `depth` chunks of weights in flight, 32 bytes apiece.
struct Int8WeightTile {
  int x_tiles;
  int warps;
  int depth;
  int blocks_per_sm;  // the compiler keeps registers few enough for these
};

// At 4.4 TB/s and 0.7 us of latency an H200 wants about 24 KB in flight on each SM; one of these blocks asks for 32 KB.
// Reasoned, not measured yet on any chip.
constexpr Int8WeightTile kInt8WeightTiles[] = {{1, 8, 4, 2}, {2, 8, 4, 2}};

// An index into kInt8WeightTiles. Beyond 16 rows blocks share outputs, and all but the first find them in the L2.
constexpr int int8_weight_tile(int m) { return m <= 8 ? 0 : 1; }

}  // namespace warpwatch
