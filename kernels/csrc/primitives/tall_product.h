// Tile shape of tall_product_sm90a.cuh, and when it pays.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kTallOutputs = 128, kTallRows = 256;

// Whether tiles of 256 rows take no more time than tiles of 128 rows, which waste less of the last wave. A tile of twice as
// many rows takes less than twice as long. Evidence: one H100, fp16, 4096 -> 14336, cold L2, us:
//   weights   rows   this kernel   cuBLAS, 16 bits   alternatives
//   4 bits     256        49             58          two tiles of 128 rows 58
//   4 bits    2048       327            316          not persistent (a block per tile) 333; dequantized for cuBLAS 384
//   8 bits     512        98            100          not persistent, stages of 128 of k 111, of 64 of k 101
constexpr bool tall_tiles_suit(int m, int n, int multiprocessors) {
  const auto waves = [&](int rows) {
    const int64_t tiles = ((int64_t{m} - 1) / rows + 1) * ((int64_t{n} - 1) / kTallOutputs + 1);
    return (tiles - 1) / multiprocessors + 1;
  };
  return m > kTallRows / 2 && 2 * waves(kTallRows) <= waves(kTallRows / 2);
}

}  // namespace warpwatch
