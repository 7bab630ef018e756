// reduce_sum_tiles.h: tile sizes and splits of reduce_sum. The file to edit when tuning it. Nothing here depends on the GPU,
// since the order of the additions follows from it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpwatch {

constexpr int kReduceSumThreads = 256;  // per block
// 16-byte loads that a thread issues before it uses the first: 64 bytes in flight, 128 KB per SM of 2048 threads; covering DRAM
// latency on an H200 takes about 26 KB.
constexpr int kReduceSumPieces = 4;
// The same for whole rows summed by a block, with as many threads as cover a row of 4096 in one step. Evidence: one H200, 268
// MB, us: fp32 67.1, four loads by half the threads 70.2; fp16 66.9 and 67.9.
constexpr int kReduceSumRowPieces = 2;
// The same for rows summed by part of a warp. Evidence: one H200, fp16, rows of 256 bytes, 268 MB, us: two 71.9, four 76.4.
constexpr int kReduceSumShortPieces = 2;
// The same for columns (inner > 1), double-buffered: a thread holds four loads and has issued four more. Evidence: one H200,
// 32768 rows of 8 KB, us, second pass included: 74.9; two loads with eight blocks per SM, which wait before they add, 76.6.
constexpr int kReduceSumColumnPieces = 4;

// Second pass over columns: neighbouring loads per block, and parts that a thread loads together.
constexpr int kReduceSumSecondLanes = 8;
constexpr int kReduceSumSecondPieces = 4;

// Blocks that keep a large GPU busy to the end: eight times what 132 SMs hold at once.
constexpr int64_t kReduceSumBlocks = 8192;
// The same for columns, whose blocks are persistent: one wave on 132 SMs, four blocks each.
constexpr int64_t kReduceSumColumnBlocks = 528;

constexpr int reduce_sum_power_of_two(int64_t atleast, int most) {
  int power = 1;
  while (power < atleast && power < most) power *= 2;
  return power;
}

// Threads per row for inner = 1: part of a warp, about kReduceSumShortPieces loads each or more, or a block. `loads`: per row.
constexpr int reduce_sum_row_lanes(int64_t loads) {
  if (loads > 32 * 2 * kReduceSumPieces) return kReduceSumThreads;
  return reduce_sum_power_of_two((loads + kReduceSumShortPieces - 1) / kReduceSumShortPieces, 32);
}

// Threads per row for rows summed whole by a block.
constexpr int reduce_sum_row_threads(int64_t loads) {
  return loads <= kReduceSumThreads * kReduceSumRowPieces ? kReduceSumThreads : 2 * kReduceSumThreads;
}

// Neighbouring loads of a row of `inner` that one block handles, for inner > 1; its other threads handle other rows.
constexpr int reduce_sum_column_lanes(int64_t loads, int64_t reduced) {
  int lanes = reduce_sum_power_of_two(loads, kReduceSumThreads);
  while (lanes > 32 && kReduceSumThreads / lanes < reduced / 4) lanes /= 2;
  return lanes;
}

// Threads per block that share these loads; the others handle the next outer index, so that small sums fill a block too.
constexpr int reduce_sum_column_rows(int lanes, int64_t reduced) {
  return reduce_sum_power_of_two((reduced - 1) / kReduceSumColumnPieces + 1, kReduceSumThreads / lanes);
}

// Splits of each sum of columns; `loads`: per row.
constexpr int64_t reduce_sum_column_splits(int64_t outer, int64_t reduced, int64_t loads) {
  const int lanes = reduce_sum_column_lanes(loads, reduced);
  const int64_t rows = int64_t{kReduceSumThreads} / lanes * kReduceSumColumnPieces;  // rows per step of a block
  const int64_t turns = (reduced - 1) / rows + 1;
  const int64_t blocks = outer * ((loads - 1) / lanes + 1);  // without splits
  const int64_t splits = std::min(kReduceSumColumnBlocks / blocks, turns / 2);
  if (splits <= 1) return 1;
  const int64_t turns_of_part = (turns - 1) / splits + 1;
  return (turns - 1) / turns_of_part + 1;  // as few splits as end at the same step
}

// Splits of each sum. `elements`: per load, 16 bytes' worth or one.
constexpr int64_t reduce_sum_splits(int64_t outer, int64_t reduced, int64_t inner, int elements) {
  if (inner > 1) return reduce_sum_column_splits(outer, reduced, (inner - 1) / elements + 1);
  const int64_t loads = (reduced - 1) / elements + 1;
  if (reduce_sum_row_lanes(loads) < kReduceSumThreads) return 1;
  if (outer >= kReduceSumBlocks / 8) return 1;  // at least one wave: a second pass would cost more than it gains
  const int64_t least = int64_t{kReduceSumThreads} * 2 * elements;  // minimum of `reduced` per split
  return std::max<int64_t>(1, std::min(kReduceSumBlocks / outer, reduced / least));
}

}  // namespace warpwatch
