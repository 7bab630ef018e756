// rope_tiles.h: tile sizes of rope. The file to edit when tuning it.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kRopeThreads = 128;  // per block

// Heads per thread, which share one load (or computation) of cos and sin; for large problems whose angles are computed, about
// forty instructions each, or whose strides need 64 bits.
constexpr int kRopeHeads = 4;

// Elements per piece of rope_small; a thread has two pieces. Evidence, fp16, us, cold L2.
// One H200, head_dim 128 except in the last row. Alternative: pieces of two elements if there are few rows, else rope_rows with
// two heads per thread.
//   heads x rows           this kernel   alternative   blocks of 256
//   8 x 2048                   6.77         7.03            6.69
//   512 x 1                    4.12         4.22            4.10
//   32 x 2048                 13.36        13.82           13.31
//   32 x 2048, bf16           13.31        14.28
//   40 x 2048                 15.18        15.55           15.15
//   64 x 2048                 21.24        21.53           21.24
//   32 x 8192                 38.4         39.4            38.5
//   8 x 32 x 2048             68.3         68.7            68.6
//   16 x 32 x 2048           130.9        131.4           131.4
//   12 x 1024, head_dim 64     5.12         5.26
// One H100, elements per piece:                  two    four   eight
//   32 x 64 heads of one row                    4.96    4.86    4.86
//   12 x 1024, head_dim 64                      6.14    6.11    6.02
//   8 x 2048, head_dim 128                      8.29    8.16    8.26
constexpr int kRopeSmallElements = 4;

// Whether kRopeHeads heads per thread would leave SMs of a large GPU (132 and more) idle. `pieces`: per half row.
constexpr bool rope_is_small(int64_t batch, int64_t heads, int64_t seq, int64_t pieces) {
  return batch * heads * seq * pieces < int64_t{4} * 132 * 2 * 128;
}

// Whether a row maps to some lanes of one warp, one piece each, with the lane groups aligned.
constexpr bool rope_row_in_warp(int64_t pieces) { return pieces >= 2 && pieces <= 32 && (pieces & (pieces - 1)) == 0; }

}  // namespace warpwatch
