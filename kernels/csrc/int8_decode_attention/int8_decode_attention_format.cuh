// The int8 Format of quantized_decode.cuh.
//
// A tile in shared memory: codes of 32 keys, codes of 32 values, the keys' scales, the values' scales. A word holds four
// consecutive elements of a key. A chunk of values is one mma tile: its even columns, then its odd ones.
#pragma once

#include "int8_decode_attention/int8_decode_attention.h"
#include "quantized_decode/quantized_decode.cuh"

namespace warpwatch {

template <int HeadDim, int RowTiles>
struct Int8Format {
  using Cache = Int8Cache;
  using Head = Int8Head;
  using Queries = QuantizedDecodeQueries<HeadDim, 4, RowTiles>;
  using Sums = QuantizedDecodeSums<HeadDim, RowTiles>;
  static constexpr bool kHasWindow = false;
  static constexpr bool kScaledValues = true;
  static constexpr int kNear = 2;
  static constexpr int kChunks = HeadDim / 16;
  static constexpr int kCodesBytes = kQuantizedKeys * HeadDim;
  static constexpr int kScalesBytes = kQuantizedKeys * 4;
  static constexpr int kStageBytes = 2 * kCodesBytes + 2 * kScalesBytes;
  static_assert(HeadDim % 64 == 0 && kStageBytes % 256 == 0, "as the swizzle wants");

  static __device__ __forceinline__ int end_of_codes(const DecodeAttentionWork& work) { return work.end_key; }

  // Keys from `end` on are filled with zeros and scale 0.
  template <typename Copy>
  static __device__ __forceinline__ void copy(uint32_t stage, const Head& head, int key, int end) {
    const int lane = threadIdx.x % 32;
    const int live = end - key;
    copy_quantized_rows<HeadDim, Copy>(stage, head.keys + key * head.key_stride, head.key_stride, live);
    Copy::template run<4>(stage + 2 * kCodesBytes + 4 * lane, head.key_scales + key + lane, lane < live);
    Copy::template run<4>(stage + 2 * kCodesBytes + kScalesBytes + 4 * lane, head.value_scales + key + lane, lane < live);
    copy_quantized_rows<HeadDim, Copy>(stage + kCodesBytes, head.values + key * head.value_stride, head.value_stride, live);
  }

  struct Tile {
    const unsigned char* stage;

    __device__ __forceinline__ explicit Tile(const unsigned char* at) : stage(at) {}

    template <typename Mma>
    __device__ __forceinline__ void score(float (&products)[RowTiles][2][4], const Queries& queries) const {
      const uint32_t row = quantized_row_of_lane<HeadDim>(shared_address(stage));
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) products[r][0][c] = products[r][1][c] = -kByteBias * queries.sum[r][c % 2];
      }
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        uint32_t words[4];
        ldmatrix_x4(words, row ^ (chunk << 4));
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          const uint32_t a[4] = {biased_even_bytes(words[2 * m]), biased_even_bytes(words[2 * m + 1]),
                                 biased_even_bytes(words[2 * m] >> 8), biased_even_bytes(words[2 * m + 1] >> 8)};
#pragma unroll
          for (int r = 0; r < RowTiles; ++r) {
            Mma::run(products[r][m], a, queries.b[r][chunk][0][0], queries.b[r][chunk][0][1]);
          }
        }
      }
      float scales[4];
      load_scales(scales, stage + 2 * kCodesBytes);
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int c = 0; c < 4; ++c) products[r][m][c] *= scales[2 * m + c / 2];
        }
      }
    }

    __device__ __forceinline__ void scales(float (&scales)[4], float (&logs)[4]) const {
      load_scales(scales, stage + 2 * kCodesBytes + kScalesBytes);
#pragma unroll
      for (int n = 0; n < 4; ++n) logs[n] = __log2f(fmaxf(scales[n], 0x1p-107f));  // keeps the log of a scale of 0 finite
    }

    template <typename Mma>
    __device__ __forceinline__ void add_values(Sums& sums, const uint32_t (&b)[RowTiles][4]) const {
      const uint32_t row = quantized_row_of_lane<HeadDim>(shared_address(stage) + kCodesBytes);
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        uint32_t words[4];
        ldmatrix_x4_trans(words, row ^ (chunk << 4));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t first = words[2 * half], second = words[2 * half + 1];
          const uint32_t a[4] = {even_bytes_as_halves(first), even_bytes_as_halves(first >> 8),
                                 even_bytes_as_halves(second), even_bytes_as_halves(second >> 8)};
#pragma unroll
          for (int r = 0; r < RowTiles; ++r) Mma::run(sums.out[r][chunk], a, b[r][2 * half], b[r][2 * half + 1]);
        }
      }
    }

   private:
    // Loads the scales of keys 8 n + g.
    static __device__ __forceinline__ void load_scales(float (&scales)[4], const unsigned char* from) {
#pragma unroll
      for (int n = 0; n < 4; ++n) scales[n] = reinterpret_cast<const float*>(from)[8 * n + threadIdx.x % 32 / 4];
    }
  };
};

}  // namespace warpwatch
