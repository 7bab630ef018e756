// reduce_sum_tiles.h: how a sum is cut for the GPU. The one file a tuner edits. Nothing here asks which GPU it is, for
// the order of the additions follows from it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpwatch {

constexpr int kReduceSumThreads = 256;  // of a block
// Pieces of 16 bytes that a thread loads before it uses the first: 64 bytes in flight, 128 KB on a multiprocessor of
// 2048 threads, where some 26 KB cover DRAM's latency on an H200.
constexpr int kReduceSumPieces = 4;
// The same of whole rows that a block adds, with as many threads as make one turn of a row of 4096: 67.1 us of 268 MB in
// fp32, four loads by half the threads 70.2; in fp16 66.9 and 67.9 (H200).
constexpr int kReduceSumRowPieces = 2;
// The same of rows that a part of a warp adds: 256 bytes of fp16 take 71.9 us of 268 MB with two, 76.4 with four (H200).
constexpr int kReduceSumShortPieces = 2;
// The same where inner is more than 1, twice: a thread holds four and has asked for four more. Sums of 32768 rows of 8 KB
// take 74.9 us so, second pass included; 76.6 by two at eight blocks a multiprocessor, which wait before they add (H200).
constexpr int kReduceSumColumnPieces = 4;

// Of the second pass over columns: neighbouring loads that a block takes, and parts that a thread asks for together.
constexpr int kReduceSumSecondLanes = 8;
constexpr int kReduceSumSecondPieces = 4;

// Blocks that keep a large GPU busy to the end: eight times what 132 multiprocessors hold at once.
constexpr int64_t kReduceSumBlocks = 8192;
// The same of columns, whose blocks stay to the end: what 132 multiprocessors hold at once, four each.
constexpr int64_t kReduceSumColumnBlocks = 528;

constexpr int reduce_sum_power_of_two(int64_t atleast, int most) {
  int power = 1;
  while (power < atleast && power < most) power *= 2;
  return power;
}

// Threads of one row where inner is 1: a part of a warp, each with its pieces or more, or else a block. `loads` is what
// one row takes.
constexpr int reduce_sum_row_lanes(int64_t loads) {
  if (loads > 32 * 2 * kReduceSumPieces) return kReduceSumThreads;
  return reduce_sum_power_of_two((loads + kReduceSumShortPieces - 1) / kReduceSumShortPieces, 32);
}

// Threads of one row that a block adds, whole.
constexpr int reduce_sum_row_threads(int64_t loads) {
  return loads <= kReduceSumThreads * kReduceSumRowPieces ? kReduceSumThreads : 2 * kReduceSumThreads;
}

// Neighbouring loads of a row of `inner` that one block takes, where inner is larger; its other threads take other rows.
constexpr int reduce_sum_column_lanes(int64_t loads, int64_t reduced) {
  int lanes = reduce_sum_power_of_two(loads, kReduceSumThreads);
  while (lanes > 32 && kReduceSumThreads / lanes < reduced / 4) lanes /= 2;
  return lanes;
}

// Threads of a block that share such loads; the others take the next outer index, so that small sums fill a block too.
constexpr int reduce_sum_column_rows(int lanes, int64_t reduced) {
  return reduce_sum_power_of_two((reduced - 1) / kReduceSumColumnPieces + 1, kReduceSumThreads / lanes);
}

// Parts of each sum of columns, where `loads` make a row.
constexpr int64_t reduce_sum_column_splits(int64_t outer, int64_t reduced, int64_t loads) {
  const int lanes = reduce_sum_column_lanes(loads, reduced);
  const int64_t rows = int64_t{kReduceSumThreads} / lanes * kReduceSumColumnPieces;  // of a block's turn
  const int64_t turns = (reduced - 1) / rows + 1;
  const int64_t blocks = outer * ((loads - 1) / lanes + 1);  // without parts
  const int64_t splits = std::min(kReduceSumColumnBlocks / blocks, turns / 2);
  if (splits <= 1) return 1;
  const int64_t turns_of_part = (turns - 1) / splits + 1;
  return (turns - 1) / turns_of_part + 1;  // no more than it takes to end as early
}

// Parts of each sum. `elements` are those of one load: 16 bytes' worth, or one.
constexpr int64_t reduce_sum_splits(int64_t outer, int64_t reduced, int64_t inner, int elements) {
  if (inner > 1) return reduce_sum_column_splits(outer, reduced, (inner - 1) / elements + 1);
  const int64_t loads = (reduced - 1) / elements + 1;
  if (reduce_sum_row_lanes(loads) < kReduceSumThreads) return 1;
  if (outer >= kReduceSumBlocks / 8) return 1;  // a wave of them: a second pass would cost more than it brings
  const int64_t least = int64_t{kReduceSumThreads} * 2 * elements;  // of `reduced`, in one part
  return std::max<int64_t>(1, std::min(kReduceSumBlocks / outer, reduced / least));
}

}  // namespace warpwatch
