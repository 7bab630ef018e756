// The tile of tall_product_sm90a.cuh, and where it is the better one.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kTallOutputs = 128, kTallRows = 256;

// Whether tiles of 256 rows take no more time than those of 128, which leave less of the GPU idle in their last wave. A tile of
// twice as many rows takes less than twice as long. 4096 -> 14336, fp16, us, one H100, cold L2, cuBLAS in 16 bits beside it: 4 bits,
// 256 rows 49 (58), by two tiles of 128 58; 2048 rows 327 (316), by a block for each tile 333, dequantized for cuBLAS 384; 8 bits,
// 512 rows 98 (100), by a block for each tile and stages of 128 of k 111, of 64 of k 101.
constexpr bool tall_tiles_suit(int m, int n, int multiprocessors) {
  const auto waves = [&](int rows) {
    const int64_t tiles = ((int64_t{m} - 1) / rows + 1) * ((int64_t{n} - 1) / kTallOutputs + 1);
    return (tiles - 1) / multiprocessors + 1;
  };
  return m > kTallRows / 2 && 2 * waves(kTallRows) <= waves(kTallRows / 2);
}

}  // namespace warpwatch
