// rope_tiles.h: how a problem is cut for the GPU. The one file a tuner edits.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kRopeThreads = 128;  // of a block

// Heads of which a thread turns the same piece, with one reading (or computing) of cos and sin, where there is much to do.
// At fp16 cos and sin are twice the bytes of a row, so reading them per head would ask more of L2 than of DRAM: four heads
// take 71.6 us of 268 MB and 13.3 of 33 MB on an H200, one 70.8 and 13.9; eight 71.1 and 13.0, but with so many registers
// that 40 heads of 2048 rows are a wave of blocks and a fifth of one.
constexpr int kRopeHeads = 4;
// The same where a row's pieces lie side by side in a warp and cos and sin come from tables: of 537 MB 130.9 us, with four
// heads 131.8, as two pieces a thread 140.5; a copy of as much takes 129.4 (H200).
constexpr int kRopeRowHeads = 2;

// Elements of a piece of rope_small, of which a thread has two: with four, 64 heads of one row take 4.29 us and one 3.81,
// with two 4.08 and 3.68; 12 heads of 1024 rows of 64 take 4.9 either way (H100). Tried and left, us behind an L2 flush, 64 heads of
// one row x 32, 12 x 1024 of 64, 8 x 2048 of 128: 4.96, 6.14, 8.29 so; blocks of 64 4.96, 6.43, 9.79, of 256 4.96, 6.14, 8.35; four
// elements 4.86, 6.11, 8.16; eight 4.86, 6.02, 8.26; no strides and one division 4.83, 6.08, 8.22.
constexpr int kRopeSmallElements = 2;

// Whether kRopeHeads a thread would leave multiprocessors of a large GPU (132 and more) without something to do. `pieces` are
// those of half a row.
constexpr bool rope_is_small(int64_t batch, int64_t heads, int64_t seq, int64_t pieces) {
  return batch * heads * seq * pieces < int64_t{4} * 132 * 2 * 128;
}

// Whether a row is that of some lanes of one warp, a piece each, and every row begins on a multiple of as many lanes.
constexpr bool rope_row_in_warp(int64_t pieces) { return pieces >= 2 && pieces <= 32 && (pieces & (pieces - 1)) == 0; }

}  // namespace warpwatch
