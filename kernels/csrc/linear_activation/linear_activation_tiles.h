// The one file a tuner edits: tiles of the fused kernel, and where two launches take its place.
#pragma once

#include <cstdint>

#include "primitives/pair_product.h"

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

// Hopper, few rows of x: a warp multiplies `rows` rows of the weight at once, `pieces` pieces of 512 bytes of each;
// `warps_on_k` warps divide k, and `teams` such teams are a block. One H200, fp16, us behind an L2 flush / replayed over
// weights that the L2 does not hold, by {rows, pieces, warps on k, teams}, then cuBLAS; one row of x: 4096 -> 16384 {4, 4, 4,
// 1} 38.1 / 35.3, {4, 4, 1, 4} 39.8 / 34.7, {2, 3, 1, 4} 39.7 / 34.8, cuBLAS 44.2 / 36.4; 14336 -> 4096 35.1 / 30.6, 35.4 /
// 31.3, 35.7 / 32.2, 42.0 / 33.9; 4096 -> 1024 8.0 / 4.3, 9.2 / 5.7, 9.7 / 5.8, 10.9 / 7.7; 768 -> 3072 7.9 / 4.3, 6.9 / 3.3,
// 6.4 / 3.0, 8.3 / 4.7; 768 -> 50257 37.0 / 34.7, 24.6 / 20.7, 24.2 / 20.6, 38.0 / 30.7. Two rows, 4096 -> 16384: {4, 4, 4, 1}
// 38.6 / 35.4, cuBLAS 44.2 / 37.1; four 44.3 / 41.2, 45.0 / 36.6.
struct GemvTile {
  int rows, pieces, warps_on_k, teams, blocks_per_sm;
  constexpr int threads() const { return 32 * warps_on_k * teams; }
};
constexpr GemvTile kGemvTile = {4, 4, 4, 1, 4}, kGemvTileOfShortRows = {2, 3, 1, 4, 6};
constexpr int kLongestShortRow = 1024;  // elements of k
constexpr int kMostGemvRows = 2;        // of x

// Hopper, more rows than those, up to 128: linear_activation_few_rows_sm90a.cu, where its tiles keep enough of the GPU busy.
// cuBLAS divides k, so that it keeps all of it busy, and wants another launch for an activation, of swiglu two. One H200, fp16,
// us behind an L2 flush / replayed over weights that the L2 does not hold, k 4096:
//   rows  outputs    tile of 96     of 128         cuBLAS         with activation
//     16  11008      29.4 / 24.6    30.0 / 25.8    33.7 / 25.1    36.7 / 27.1
//     16  14336      43.6 / 38.0    36.5 / 31.9    40.3 / 31.2    42.8 / 33.2
//     64  16384      45.1 / 39.6    41.7 / 35.7    46.6 / 37.6    50.8 / 40.1
//    128  11008      32.4 / 27.4    32.7 / 28.6    34.0 / 25.5    37.8 / 29.3
//    128  16384      51.6 / 45.4    44.1 / 38.3    46.6 / 38.7    52.3 / 42.4
//   swiglu
//     16  14336      75.4 / 67.6    67.0 / 59.1    71.9 / 63.6    77.3 / 66.9
//     64  14336      77.2 / 68.7    68.6 / 59.8    73.9 / 63.6    80.9 / 69.5
//    128  11008      57.5 / 49.7    58.9 / 51.0    61.3 / 53.0    69.7 / 59.9
// behind an L2 flush, this kernel / cuBLAS with activation, by the share of the GPU that is busy, k 4096, 64 rows: silu 0.24
// 18.6 / 17.5, 0.32 19.0 / 20.7, 0.40 19.5 / 22.2, 0.73 28.2 / 33.1; without one 0.32 18.5 / 17.5, 0.40 19.2 / 19.7, 0.73 28.3
// / 30.1; swiglu 0.08 21.1 / 23.5, 0.16 21.4 / 29.2; 128 rows: silu 0.32 23.4 / 21.2, 0.40 24.5 / 25.2; swiglu 0.24 37.1 /
// 35.3, 0.32 37.2 / 40.0. Tried and dropped: clusters of two or four CTAs that multicast x, up to 1.5 slower and none faster;
// stages of 128 of k, 31.1 / 27.1 instead of 32.4 / 27.4 at 128 x 11008, 52.3 / 46.5 instead of 51.6 / 45.4 at 128 x 16384;
// weights without evict_first, 3 slower.
constexpr int kMostFewRows = 128;

struct FewRowsTiles {
  int outputs;  // of a tile: 96 or 128, whichever takes less time
  double busy;  // the share of the SMs' time in which they multiply outputs that exist

  constexpr FewRowsTiles(int n, int multiprocessors) {
    const auto time = [&](int each) { return ((n - 1) / each + multiprocessors) / multiprocessors * each; };
    outputs = time(96) < time(128) ? 96 : 128;
    busy = static_cast<double>(n) / time(outputs) / multiprocessors;
  }
};

constexpr double kLeastBusyOfFewRows = 0.4, kLeastBusyOfFewRowsGated = 0.16;

constexpr bool few_rows_are_fused(int m, int n, int multiprocessors, bool has_activation) {
  return (m <= 64 || has_activation) && FewRowsTiles(n, multiprocessors).busy >= kLeastBusyOfFewRows;
}
constexpr bool swiglu_of_few_rows_is_fused(int m, int n, int multiprocessors) {
  return FewRowsTiles(n, multiprocessors).busy >= (m <= 64 ? kLeastBusyOfFewRowsGated : kLeastBusyOfFewRows);
}

// Hopper's wgmma, which cuBLAS has, multiplies half as fast again as the mma of the fused kernel. At 128 rows eager's two
// launches were faster than the fused one on an H200; at 64 nothing has been compared. Of a build with sm_90a's kernels, not of
// compute capability 9.0.
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

// Hopper: whether one launch by pair_product_sm90a.cuh is better than cuBLAS and another: where its tiles keep the GPU busy.
// cuBLAS has other tiles, and of swiglu two products, each with a last wave. One H200, fp16, behind an L2 flush, us, one launch
// / eager, by the share in which the clusters multiply: 4096 -> 11008, silu, 2048 rows 0.93 275 / 280; gelu, 512 rows 0.81 86 /
// 77, 640 0.81 105 / 100, 1024 0.87 150 / 142, 1536 0.98 205 / 220, 4096 0.98 586 / 647; -> 16384, gelu, 2048 rows 0.97 437 /
// 450; 768 -> 3072, gelu by tanh, 1024 rows 0.73 18.5 / 18.0, 8192 0.97 76 / 92; swiglu, -> 11008, 256 rows 0.81 82.4 / 83.0,
// 512 0.87 151 / 174, 2048 0.99 542 / 551, 4096 0.99 1061 / 1133; -> 14336, 512 rows 0.93 170 / 202.
constexpr double kLeastBusyOfLayer = 0.9, kLeastBusyOfSwiglu = 0.85;

constexpr bool linear_is_fused_by_wgmma(int m, int n, int multiprocessors) {
  return PairTiles(m, n, multiprocessors).busy(m, n) >= kLeastBusyOfLayer;
}
constexpr bool swiglu_is_fused_by_wgmma(int m, int n, int multiprocessors) {
  return PairTiles(m, int64_t{2} * n, multiprocessors).busy(m, int64_t{2} * n) >= kLeastBusyOfSwiglu;
}

}  // namespace warpwatch
