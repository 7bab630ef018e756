// rope_tiles.h: how a problem is cut for the GPU. The one file a tuner edits.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kRopeThreads = 128;  // of a block

// Heads of which a thread turns the same piece, with one reading (or computing) of cos and sin, where there is much to do and
// angles are computed, some forty instructions each, or strides need 64 bits.
constexpr int kRopeHeads = 4;

// Elements of a piece of rope_small, of which a thread has two. Evidence, fp16, us behind an L2 flush. One H200, rows of 128, by
// four elements / by two where rows are few, else by 16-byte pieces of two heads a thread, side by side in a warp:
//   8 x 2048 rows 6.77 / 7.03, 512 of one 4.12 / 4.22, 32 x 2048 13.36 / 13.82 (bf16 13.31 / 14.28), 40 x 2048 15.18 / 15.55,
//   64 x 2048 21.24 / 21.53, 32 x 8192 38.4 / 39.4, 8 x 32 x 2048 68.3 / 68.7, twice that 130.9 / 131.4;
//   12 x 1024 of 64 5.12 / 5.26. Blocks of 256: 6.69, 4.10, 13.31, -, 15.15, 21.24, 38.5, 68.6, 131.4
// One H100, 64 heads of one row x 32, 12 x 1024 of 64, 8 x 2048 of 128, by two, four, eight elements: 4.96, 6.14, 8.29;
// 4.86, 6.11, 8.16; 4.86, 6.02, 8.26
constexpr int kRopeSmallElements = 4;

// Whether kRopeHeads a thread would leave multiprocessors of a large GPU (132 and more) without something to do. `pieces` are
// those of half a row.
constexpr bool rope_is_small(int64_t batch, int64_t heads, int64_t seq, int64_t pieces) {
  return batch * heads * seq * pieces < int64_t{4} * 132 * 2 * 128;
}

// Whether a row is that of some lanes of one warp, a piece each, and every row begins on a multiple of as many lanes.
constexpr bool rope_row_in_warp(int64_t pieces) { return pieces >= 2 && pieces <= 32 && (pieces & (pieces - 1)) == 0; }

}  // namespace warpwatch
