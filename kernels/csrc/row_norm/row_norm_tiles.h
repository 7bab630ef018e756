// row_norm_tiles.h: how many threads hold a row in their registers. The one file a tuner edits.
#pragma once

#include <cstdint>

namespace warpwatch {

struct RowNormTile {
  int threads;  // of a row: a part of a warp, or a block of its own
  int pieces;   // of 16 bytes that each of them holds
  int rows;     // of a block
  bool few;     // for so few rows that a multiprocessor has one or two of them

  constexpr int block() const { return threads * rows; }
  constexpr int64_t most_pieces() const { return int64_t{threads} * pieces; }
  constexpr int64_t most_rows() const { return few ? 264 : INT64_MAX; }
};

// The first that holds a row is taken. Four pieces a thread are 64 bytes in flight, 128 with a residual: at 512 threads
// on a multiprocessor more than the 26 KB that cover DRAM's latency on an H200 (4.4 TB/s, some 0.8 us, 132 of them).
// Rows of 8 KB at 128 threads of four pieces take 70.2 us of 268 MB, at 256 of two 71.7, at 512 of one 74.8.
// Wider rows than the last holds would spill: 1024 threads leave 64 registers.
// Up to 128 pieces (1024 elements in fp16) a warp does without a barrier. Where rows are few, each has a multiprocessor
// to itself, and more threads with less to do are the faster way through it: by 3 % of some 5 us, launch included.
constexpr RowNormTile kRowNormTiles[] = {
    {16, 1, 8, false},  {32, 1, 4, false},  {128, 1, 1, true},  {256, 2, 1, true},
    {32, 4, 4, false},  {128, 4, 1, false}, {256, 4, 1, false}, {512, 4, 1, false},
};

// Blocks that a multiprocessor must have room for: 512 threads, 128 registers each, for left to itself ptxas spills a few
// at 40 or 64 for the sake of occupancy. On Hopper 64 do in fp32 without a residual: rows of 16 KB take 137.0 us of 537 MB
// so, centred, and 138.6 with 70 registers, at three blocks a multiprocessor and not four (H200).
constexpr int row_norm_resident(int block, int element_bytes, bool residual) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  if (element_bytes == 4 && !residual) return 1024 / block;
#endif
  return 512 / block;
}

// Of the kernel that takes every width and alignment, one element at a time: threads of a row, which is a block.
constexpr int kRowNormAnyThreads = 256;

}  // namespace warpwatch
