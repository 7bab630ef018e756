// Tile sizes of decode attention over quantized caches: warps per block, and tiles of 32 keys and values in flight per warp.
// The file to edit when tuning it.
//
// Bytes per tile: INT8 64 head_dim + 256, INT4 40 head_dim. By Little's law an H200 (4.4 TB/s, 0.8 us)
// needs about 27 KB in flight per SM. 32-bit registers per thread: output head_dim / 4, queries
// head_dim / 8, twice both beyond eight packed queries.
#pragma once

namespace warpwatch {

struct QuantizedDecodeTile {
  int warps;
  int stages;
};

// sm_80 and newer: at most the 99 KB per block of sm_86. Evidence: one H200, batch 8, 32 query heads over 8, 4096 keys,
// head_dim 128; of 2 to 8 warps, 2 to 5 stages and 2 to 8 splits, these are the fastest or within half a us of it. head_dim 64
// and 256 are not measured.
constexpr QuantizedDecodeTile int8_decode_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 5};
  return head_dim == 128 ? QuantizedDecodeTile{4, 3} : QuantizedDecodeTile{2, 3};
}
constexpr QuantizedDecodeTile int4_decode_sm80_tile(int head_dim) {
  if (head_dim == 64) return {4, 6};
  return head_dim == 128 ? QuantizedDecodeTile{4, 3} : QuantizedDecodeTile{2, 4};
}

// sm_75: one tile per warp, through registers; at head_dim 128 two blocks fit the 64 KB of an SM.
constexpr QuantizedDecodeTile int8_decode_sm75_tile(int head_dim) {
  return head_dim == 256 ? QuantizedDecodeTile{2, 1} : QuantizedDecodeTile{3, 1};
}
constexpr QuantizedDecodeTile int4_decode_sm75_tile(int head_dim) {
  return head_dim == 256 ? QuantizedDecodeTile{2, 1} : QuantizedDecodeTile{4, 1};
}

// Tiles of eight packed queries per block. At head_dim 256 the output of two tiles would not fit in registers: a second block
// reads the same keys and values, at about the same time and therefore from L2.
constexpr int quantized_decode_row_tiles(int rows, int head_dim) { return rows > 8 && head_dim <= 128 ? 2 : 1; }
constexpr int quantized_decode_block_rows(int rows, int head_dim) { return 8 * quantized_decode_row_tiles(rows, head_dim); }

// Blocks per SM assumed when choosing the number of splits: two of these tiles fit the 227 KB of sm_90 and sm_100 and the 64 KB
// of sm_75, one fits the 100 to 164 KB of the others.
constexpr int quantized_decode_blocks_per_sm(int compute_capability) {
  const bool large = compute_capability / 10 == 9 || compute_capability / 10 == 10;
  return large || compute_capability < 80 ? 2 : 1;
}

}  // namespace warpwatch
