// The one file a tuner edits: warps of a block, and tiles of 32 keys and values that each has on the way in shared memory.
//
// Bytes of a tile: INT8 64 head_dim + 256, INT4 40 head_dim. At 4.4 TB/s and 0.8 us of latency an H200 wants some 27 KB on
// the way to each SM. Registers per thread, in 32 bits: the output head_dim / 2, the queries head_dim / 4.
#pragma once

namespace warpwatch {

struct QuantizedDecodeTile {
  int warps;
  int stages;
};

// sm_80 and newer: up to the 99 KB that a block may have on sm_86. Of 2 to 8 warps, 2 to 8 stages and 2 to 16 parts these
// were the fastest on an H200, batch 8, 32 query heads over 8, 4096 keys, head_dim 128, or within 1 us of it. Of head_dim 64
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

constexpr int kQuantizedDecodeRows = 16;  // packed queries of a block

// Blocks for each SM into which keys are divided. An SM of sm_90 holds two; INT8 with one each, in half as many parts, took
// 29.0 us there instead of 31.8, INT4 with two 22.4 us instead of 23.8 (the shape above).
constexpr int int8_decode_blocks_per_sm(int compute_capability) { return compute_capability < 80 ? 2 : 1; }
constexpr int int4_decode_blocks_per_sm(int compute_capability) {
  const bool large = compute_capability / 10 == 9 || compute_capability / 10 == 10;
  return large || compute_capability < 80 ? 2 : 1;
}

}  // namespace warpwatch
