// Tile sizes of linear_activation, and where one fused launch is faster than two: the file to edit when tuning it.
#pragma once

#include <cstdint>

#include "primitives/pair_product.h"

namespace warpwatch {

// A block of 8 warps owns `rows` rows of x by `outputs` outputs.
struct LinearTile {
  int rows, outputs;
  int warps_along_rows, warps_along_outputs;
  int stages;         // slabs of 64 of k in shared memory
  int blocks_per_sm;  // minimum per SM (__launch_bounds__)
};

// sm_80 and newer. 3 stages of 32 KB fit an RTX card (99 KB per block). Reasoned, not measured yet on any chip.
constexpr LinearTile kLinearTilesSm80[] = {{32, 128, 1, 8, 4, 1}, {64, 128, 2, 4, 4, 1}, {128, 128, 2, 4, 3, 2}};

// Turing has 64 KB of shared memory and no cp.async: two stages, the next one held in registers.
constexpr LinearTile kLinearTilesSm75[] = {{64, 128, 2, 4, 2, 1}};

// Index into the architecture's table.
constexpr int linear_tile(bool sm80, int m) { return !sm80 || m <= 32 ? 0 : m <= 64 ? 1 : 2; }

// Hopper, GEMV for few rows of x: a warp multiplies `rows` weight rows at once, `pieces` pieces of 512 bytes of each;
// `warps_on_k` warps split k, and a block has `teams` such teams. Evidence: one H200, fp16, us, cold L2 (flushed) / CUDA graph
// replays over weights that L2 does not hold; tiles as {rows, pieces, warps on k, teams}:
//   k -> n          rows of x   {4, 4, 4, 1}   {4, 4, 1, 4}   {2, 3, 1, 4}   cuBLAS
//   4096 -> 16384       1       38.1 / 35.3    39.8 / 34.7    39.7 / 34.8    44.2 / 36.4
//   14336 -> 4096       1       35.1 / 30.6    35.4 / 31.3    35.7 / 32.2    42.0 / 33.9
//   4096 -> 1024        1        8.0 /  4.3     9.2 /  5.7     9.7 /  5.8    10.9 /  7.7
//   768 -> 3072         1        7.9 /  4.3     6.9 /  3.3     6.4 /  3.0     8.3 /  4.7
//   768 -> 50257        1       37.0 / 34.7    24.6 / 20.7    24.2 / 20.6    38.0 / 30.7
//   4096 -> 16384       2       38.6 / 35.4                                  44.2 / 37.1
//   4096 -> 16384       4       44.3 / 41.2                                  45.0 / 36.6
struct GemvTile {
  int rows, pieces, warps_on_k, teams, blocks_per_sm;
  constexpr int threads() const { return 32 * warps_on_k * teams; }
};
constexpr GemvTile kGemvTile = {4, 4, 4, 1, 4}, kGemvTileOfShortRows = {2, 3, 1, 4, 6};
constexpr int kLongestShortRow = 1024;  // elements of k
constexpr int kMostGemvRows = 2;        // of x

// Hopper, 3 to 128 rows of x: linear_activation_few_rows_sm90a.cu, if its tiles keep enough of the GPU busy. cuBLAS splits k,
// so it keeps all of the GPU busy, and needs another launch for an activation, two for swiglu. Evidence: one H200, fp16,
// k = 4096, us, cold L2 (flushed) / CUDA graph replays over weights that L2 does not hold:
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
// By the busy share of the GPU, cold L2, k = 4096, this kernel / cuBLAS with its activation launch:
//   rows  layer          0.08          0.16          0.24          0.32          0.40          0.73
//     64  silu                                       18.6 / 17.5   19.0 / 20.7   19.5 / 22.2   28.2 / 33.1
//     64  no activation                                            18.5 / 17.5   19.2 / 19.7   28.3 / 30.1
//     64  swiglu         21.1 / 23.5   21.4 / 29.2
//    128  silu                                                     23.4 / 21.2   24.5 / 25.2
//    128  swiglu                                     37.1 / 35.3   37.2 / 40.0
// Longer rows, this kernel / cuBLAS with its activation launch:
//   rows  layer    k -> n          busy        cold             replays
//     16  silu     8192 ->  8192   0.65     44.1 / 46.8      39.8 / 37.4
//     16  silu    14336 ->  8192   0.65     69.7 / 68.9      63.8 / 58.9
//     16  silu    28672 ->  8192   0.65    132.4 / 122.1    125.7 / 111.8
//    128  swiglu  14336 ->  8192   0.65    154.0 / 140.2    140.1 / 127.5
//     16  silu    28672 -> 12288   0.97    181.6 / 193.9    167.3 / 183.8
// Tried and dropped: clusters of two or four CTAs that multicast x, up to 1.5 slower and none faster; stages of 128 of k,
// 31.1 / 27.1 instead of 32.4 / 27.4 at 128 x 11008, but 52.3 / 46.5 instead of 51.6 / 45.4 at 128 x 16384; weights without
// evict_first, 3 slower.
constexpr int kMostFewRows = 128;

struct FewRowsTiles {
  int outputs;  // per tile: 96 or 128, whichever takes less time
  double busy;  // share of the SMs' time that computes existing outputs

  constexpr FewRowsTiles(int n, int multiprocessors) {
    const auto time = [&](int each) { return ((n - 1) / each + multiprocessors) / multiprocessors * each; };
    outputs = time(96) < time(128) ? 96 : 128;
    busy = static_cast<double>(n) / time(outputs) / multiprocessors;
  }
};

constexpr double kLeastBusyOfFewRows = 0.4, kLeastBusyOfLongRows = 0.8, kLeastBusyOfFewRowsGated = 0.16;
constexpr int kMostOfShortRow = 8192;  // elements of k

constexpr bool few_rows_are_fused(int n, int k, int multiprocessors) {
  return FewRowsTiles(n, multiprocessors).busy >= (k > kMostOfShortRow ? kLeastBusyOfLongRows : kLeastBusyOfFewRows);
}
constexpr bool layer_of_few_rows_is_fused(int m, int n, int k, int multiprocessors, bool has_activation) {
  return (m <= 64 || has_activation) && few_rows_are_fused(n, k, multiprocessors);
}
constexpr bool swiglu_of_few_rows_is_fused(int m, int n, int k, int multiprocessors) {
  if (m <= 64) return FewRowsTiles(n, multiprocessors).busy >= kLeastBusyOfFewRowsGated;
  return few_rows_are_fused(n, k, multiprocessors);
}

// cuBLAS uses Hopper's wgmma, whose rate is 1.5 times that of the fused kernel's mma. With 128 rows, eager's two launches were
// faster than the fused one on an H200; 64 rows have not been compared. In a build with sm_90a's kernels, compute capability
// 9.0 does not use this rule.
constexpr int kMostFusedRowsOnHopper = 64;

// Whether one launch is faster than two. The fused kernel cannot split k, since fp32 partial sums would first have to be added
// in a fixed order. If its tiles leave a quarter of the GPU idle, cuBLAS, which splits k, is faster.
constexpr bool linear_is_fused(int capability, int m, int n, int multiprocessors) {
  if (capability >= 90 && capability < 120 && m > kMostFusedRowsOnHopper) return false;
  const bool sm80 = capability >= 80;
  const LinearTile tile = sm80 ? kLinearTilesSm80[linear_tile(true, m)] : kLinearTilesSm75[0];
  const int64_t tiles = ((static_cast<int64_t>(m) + tile.rows - 1) / tile.rows) *
                        ((static_cast<int64_t>(n) + tile.outputs - 1) / tile.outputs);
  return 4 * tiles >= 3 * static_cast<int64_t>(multiprocessors);
}

// Hopper: whether one launch by pair_product_sm90a.cuh is faster than cuBLAS and an epilogue launch: if its tiles fill the GPU.
// cuBLAS has other tile shapes, and for swiglu two products, each with its own last wave.
// Evidence: one H200, fp16, cold L2, us; busy: share of the clusters' time that computes existing elements.
//   k -> n          layer       rows    busy   one launch   eager
//   4096 -> 11008   silu        2048    0.93      275        280
//   4096 -> 11008   gelu         512    0.81       86         77
//   4096 -> 11008   gelu         640    0.81      105        100
//   4096 -> 11008   gelu        1024    0.87      150        142
//   4096 -> 11008   gelu        1536    0.98      205        220
//   4096 -> 11008   gelu        4096    0.98      586        647
//   4096 -> 16384   gelu        2048    0.97      437        450
//   768 -> 3072     gelu_tanh   1024    0.73       18.5       18.0
//   768 -> 3072     gelu_tanh   8192    0.97       76         92
//   4096 -> 11008   swiglu       256    0.81       82.4       83.0
//   4096 -> 11008   swiglu       512    0.87      151        174
//   4096 -> 11008   swiglu      2048    0.99      542        551
//   4096 -> 11008   swiglu      4096    0.99     1061       1133
//   4096 -> 14336   swiglu       512    0.93      170        202
constexpr double kLeastBusyOfLayer = 0.9, kLeastBusyOfSwiglu = 0.85;

constexpr bool linear_is_fused_by_wgmma(int m, int n, int multiprocessors) {
  return PairTiles(m, n, multiprocessors).busy(m, n) >= kLeastBusyOfLayer;
}
constexpr bool swiglu_is_fused_by_wgmma(int m, int n, int multiprocessors) {
  return PairTiles(m, int64_t{2} * n, multiprocessors).busy(m, int64_t{2} * n) >= kLeastBusyOfSwiglu;
}

}  // namespace warpwatch
