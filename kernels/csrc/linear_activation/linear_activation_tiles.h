// The one file a tuner edits: tiles of the fused kernel, and where two launches take its place.
#pragma once

#include <cstdint>

namespace warpwatch {

// A block owns `rows` rows of x by `outputs` outputs, shared among 8 warps.
struct LinearTile {
  int rows, outputs;
  int warps_along_rows, warps_along_outputs;
  int stages;         // slabs of 64 of k in shared memory
  int blocks_per_sm;  // the compiler keeps registers few enough for these
};

// From sm_80 on. 3 stages of 32 KB are what an RTX (99 KB a block) has room for. Reasoned, not measured yet on any chip.
constexpr LinearTile kLinearTilesSm80[] = {{32, 128, 1, 8, 4, 1}, {64, 128, 2, 4, 4, 1}, {128, 128, 2, 4, 3, 2}};

// Turing has 64 KB of shared memory and no cp.async: two stages, the next one in registers.
constexpr LinearTile kLinearTilesSm75[] = {{64, 128, 2, 4, 2, 1}};

// An index into the table of the architecture.
constexpr int linear_tile(bool sm80, int m) { return !sm80 || m <= 32 ? 0 : m <= 64 ? 1 : 2; }

// Hopper's wgmma, which cuBLAS has, multiplies half as fast again as the mma of the fused kernel. At 128 rows eager's two
// launches were faster than the fused one on an H200; at 64 nothing has been compared.
constexpr int kMostFusedRowsOnHopper = 64;

// Whether one launch is better than two. K is not divided between blocks, since fp32 sums would have to be added in a
// fixed order first: where the tiles leave a quarter of the GPU idle, cuBLAS, which divides it, is better off.
constexpr bool linear_is_fused(int capability, int m, int n, int multiprocessors) {
  if (capability >= 90 && capability < 120 && m > kMostFusedRowsOnHopper) return false;
  const bool sm80 = capability >= 80;
  const LinearTile tile = sm80 ? kLinearTilesSm80[linear_tile(true, m)] : kLinearTilesSm75[0];
  const int64_t tiles = ((static_cast<int64_t>(m) + tile.rows - 1) / tile.rows) *
                        ((static_cast<int64_t>(n) + tile.outputs - 1) / tile.outputs);
  return 4 * tiles >= 3 * static_cast<int64_t>(multiprocessors);
}

}  // namespace warpwatch
