// Tile shapes of pair_product_sm90a.cuh, and the estimate of how well they fill a GPU.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kPairRows = 256, kPairWeights = 256;  // of x and of weights, per cluster of two CTAs

// Schedule of the tiles over the clusters: `whole` tiles, then the remaining tiles cut into halves.
struct PairTiles {
  int whole, all;
  int along_rows, along_weights;
  int clusters;  // that run at once on the GPU

  static constexpr int64_t along(int64_t rows, int each) { return (rows - 1) / each + 1; }
  static constexpr int64_t count(int m, int64_t weight_rows) { return along(m, kPairRows) * along(weight_rows, kPairWeights); }

  // count() is at most 2^30.
  constexpr PairTiles(int m, int64_t weight_rows, int multiprocessors)
      : whole(static_cast<int>(count(m, weight_rows))),
        all(whole),
        along_rows(static_cast<int>(along(m, kPairRows))),
        along_weights(static_cast<int>(along(weight_rows, kPairWeights))),
        clusters(multiprocessors < 2 ? 1 : multiprocessors / 2) {
    const int rest = whole % clusters;
    if (2 * rest <= clusters) whole -= rest, all += rest;
  }

  // The share of the clusters' time spent on existing (unpadded) elements. A half tile takes 0.6 of a tile's time.
  constexpr double busy(int m, int64_t weight_rows) const {
    const double tiles = static_cast<double>(m) * static_cast<double>(weight_rows) / (kPairRows * kPairWeights);
    const int waves = (whole + clusters - 1) / clusters;
    return tiles / ((waves + (all > whole ? 0.6 : 0.0)) * clusters);
  }
};

}  // namespace warpwatch
