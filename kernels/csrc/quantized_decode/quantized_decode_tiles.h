// The one file a tuner edits: warps of a block, and tiles of 32 keys and values that each has on the way in shared memory.
//
// Bytes of a tile: INT8 64 head_dim + 256, INT4 40 head_dim. At 4.4 TB/s and 0.8 us of latency an H200 wants some 27 KB on
// the way to each SM. Registers per thread, in 32 bits: the output head_dim / 4, the queries
// head_dim / 8, both twice as many beyond eight packed queries.
#pragma once

namespace warpwatch {

struct QuantizedDecodeTile {
  int warps;
  int stages;
};

// sm_80 and newer: up to the 99 KB that a block may have on sm_86. Of 2 to 8 warps, 2 to 5 stages and 2 to 8 parts these were
// the fastest on an H200, batch 8, 32 query heads over 8, 4096 keys, head_dim 128, or within half a us of it. Of head_dim 64
// and 256 nothing was measured.
constexpr QuantizedDecodeTile int8_decode_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 5};
  return head_dim == 128 ? QuantizedDecodeTile{4, 3} : QuantizedDecodeTile{2, 3};
}
constexpr QuantizedDecodeTile int4_decode_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 6};
  return head_dim == 128 ? QuantizedDecodeTile{4, 3} : QuantizedDecodeTile{2, 4};
}

// sm_75: one tile a warp, through registers, and at head_dim 128 two blocks in the 64 KB of an SM.
constexpr QuantizedDecodeTile int8_decode_sm75_tile(int head_dim) {
  return head_dim == 256 ? QuantizedDecodeTile{2, 1} : QuantizedDecodeTile{3, 1};
}
constexpr QuantizedDecodeTile int4_decode_sm75_tile(int head_dim) {
  return head_dim == 256 ? QuantizedDecodeTile{2, 1} : QuantizedDecodeTile{4, 1};
}

// Packed queries of a block, in tiles of eight. At head_dim 256 two tiles' output would not fit in registers: a second block
// reads the same keys and values, at about the same time and so out of L2.
constexpr int quantized_decode_row_tiles(int rows, int head_dim) { return rows > 8 && head_dim <= 128 ? 2 : 1; }
constexpr int quantized_decode_block_rows(int rows, int head_dim) { return 8 * quantized_decode_row_tiles(rows, head_dim); }

// Blocks for each SM into which keys are divided: two of these tiles fit the 227 KB of sm_90 and sm_100 and the 64 KB of
// sm_75, one the 100 to 164 KB of the others.
constexpr int quantized_decode_blocks_per_sm(int compute_capability) {
  const bool large = compute_capability / 10 == 9 || compute_capability / 10 == 10;
  return large || compute_capability < 80 ? 2 : 1;
}

}  // namespace warpwatch
