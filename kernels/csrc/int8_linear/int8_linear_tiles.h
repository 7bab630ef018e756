// Tile sizes of int8_linear and the rules that choose among them: the file to edit when tuning it.
#pragma once

#include <cstdint>

namespace warpwatch {

// Decode kernel (few rows of x): a block owns 16 outputs for all of x, and its warps take chunks of 64 bytes of k round-robin.
// Each thread keeps `depth` chunks of weights in flight, 32 bytes each.
struct Int8DecodeTile {
  int x_tiles;  // of 8 rows
  int warps;
  int depth;
  int blocks_per_sm;  // minimum per SM (__launch_bounds__)
};

// By Little's law an H200 (4.4 TB/s, 0.7 us) needs about 24 KB in flight per SM; one of these blocks keeps 32 KB in flight.
// Reasoned, not measured yet on any chip.
constexpr Int8DecodeTile kInt8DecodeTiles[] = {{1, 8, 4, 2}, {2, 8, 4, 2}};

// Most rows of x for the decode kernel; more go to the batch kernel.
constexpr int kInt8DecodeRows = 16;

// Index into kInt8DecodeTiles.
constexpr int int8_decode_tile(int m) { return m <= 8 ? 0 : 1; }

// Batch kernel: a block of 8 warps owns `rows` rows of x by `outputs` outputs.
struct Int8BatchTile {
  int rows, outputs;
  int warps_along_rows, warps_along_outputs;
  int stages;         // slabs of 128 bytes of k in shared memory
  int blocks_per_sm;  // minimum per SM (__launch_bounds__)
};

// sm_80 and newer. 3 stages of 32 KB fit an RTX card (99 KB per block); on an H200 two such blocks fit per SM. A warp with
// 64 x 32 sums reads 3 KB of shared memory for 64 Ki products, about half of the rate that an H200's mma.sync could take.
// Reasoned, not measured yet on any chip.
constexpr Int8BatchTile kInt8BatchTilesSm80[] = {{32, 128, 1, 8, 4, 1}, {64, 128, 2, 4, 4, 1}, {128, 128, 2, 4, 3, 2}};

// Turing has 64 KB of shared memory and no cp.async: two stages, the next one held in registers.
constexpr Int8BatchTile kInt8BatchTilesSm75[] = {{64, 128, 2, 4, 2, 1}};

// Hopper: one consumer warpgroup per 64 rows, and one producer warp. `splits` blocks, a cluster, split k.
struct Int8WgmmaTile {
  int rows, outputs;
  int stages;  // slabs of 128 bytes of k in shared memory
  int splits;
};

// Evidence: one H200, cold L2, standalone harness, including the quantizing launch, us, 4096 x 4096. On that GPU only 30
// clusters of four run at a time, and 66 clusters of two.
//   rows   {128, 128, 6, 1}   {128, 64, 8, 2}   {256, 128, 4, 1}   {128, 128, 6, 2}
//    256                            23.4                                 19.5
//    512        23.2                                  32.4
//   2048        72.0                                  64.3
constexpr Int8WgmmaTile kInt8WgmmaTiles[] = {
    {64, 64, 6, 1}, {64, 64, 12, 2}, {128, 128, 6, 1}, {128, 64, 8, 2}, {256, 128, 4, 1}, {128, 128, 6, 2}};

// Index into kInt8WgmmaTiles: the largest tile that still gives most SMs a block, without splitting k if possible.
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

// Index into the architecture's table.
constexpr int int8_batch_tile(bool sm80, int m) { return !sm80 || m <= 32 ? 0 : m <= 64 ? 1 : 2; }

// Tile and split-K factor of a call.
struct Int8Plan {
  int tile;          // index into the batch kernel's table
  int splits;        // blocks per tile, which split k
  int64_t tiles;     // tiles of out: blocks without splits
  int64_t partials;  // 32-bit partial sums in the workspace: 0 without splits
};

// k is split only if the tiles leave SMs idle, and then so that all blocks still run in one wave. A split has at least four
// slabs of 128: with fewer, its prologue and the exchange of sums cost more than they gain.
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
