// How the rows of x are divided among tiles that TMA copies.
#pragma once

namespace warpwatch {

// Rows of each tile, at most `most`: about as many in each, since TMA takes longer for rows outside a tensor than for rows
// inside. A multiple of eight, after which the swizzle repeats; so is `most`. Evidence: one H200, cold L2, us:
//   16 rows by 5760 x 8192, boxes of 64 rows 39.8, of 16 rows 30.6
//   int4_linear, 8192 -> 8192, 129 rows in boxes of 128 rows 77, of 72 rows 53
//   int8_linear, 8192 -> 8192, 129 rows in boxes of 128 rows 60, of 72 rows 38
constexpr int rows_of_tile(int m, int most) {
  const int tiles = (m - 1) / most + 1;
  return ((m - 1) / tiles + 8) / 8 * 8;
}

}  // namespace warpwatch
