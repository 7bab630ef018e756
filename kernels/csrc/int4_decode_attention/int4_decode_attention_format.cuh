// The 4-bit KIVI Format of quantized_decode.cuh: a tile is one group of 32 keys and values.
//
// A tile in shared memory: codes of 32 keys, codes of 32 values; the keys' scales and zeros, as they lie in the cache; per
// value its groups' scales and zeros, alternating, padded to 16-byte chunks. A word holds eight consecutive channels of a key.
// A chunk of values holds one group of channels and four mma tiles.
//
// Values are dequantized to fp16, scale code + zero rounded once, before the product with the weights. Folding the scales into
// the weights would take fewer products, but weights are at most 1: a small weight times a small scale underflows fp16.
#pragma once

#include "int4_decode_attention/int4_decode_attention.h"
#include "quantized_decode/quantized_decode.cuh"

namespace warpwatch {

template <typename Element>
struct Int4DeviceHead {
  const uint8_t* keys;
  const uint8_t* values;
  const __half* key_scales;
  const __half* value_scales;
  const Element* key_window;
  const Element* value_window;

  __device__ __forceinline__ Int4DeviceHead(const Int4Cache& cache, int batch, int head) {
    const int64_t index = int64_t{batch} * cache.heads_kv + head;
    const int64_t elements = index * cache.capacity * cache.head_dim;
    keys = cache.k_codes + elements / 2;
    values = cache.v_codes + elements / 2;
    key_scales = static_cast<const __half*>(cache.k_scales) + elements / kInt4Group * 2;
    value_scales = static_cast<const __half*>(cache.v_scales) + elements / kInt4Group * 2;
    key_window = static_cast<const Element*>(cache.k_window) + index * kInt4Group * cache.head_dim;
    value_window = static_cast<const Element*>(cache.v_window) + index * kInt4Group * cache.head_dim;
  }
};

template <typename Element, int HeadDim, int RowTiles>
struct Int4Format {
  using Cache = Int4Cache;
  using Head = Int4DeviceHead<Element>;
  static constexpr bool kHasWindow = true;
  static constexpr bool kScaledValues = false;
  static constexpr int kNear = 4;
  static constexpr int kChunks = HeadDim / 32;  // 16-byte chunks of codes per row; also groups of channels
  using Queries = QuantizedDecodeQueries<HeadDim, 8, RowTiles>;
  using Sums = QuantizedDecodeSums<HeadDim, RowTiles>;
  static constexpr int kCodesBytes = kQuantizedKeys * HeadDim / 2;
  static constexpr int kKeyScalesBytes = 4 * HeadDim;
  static constexpr int kTokenScales = HeadDim / 8;  // bytes of scales and zeros per value
  static constexpr int kTokenStride = kTokenScales < 16 ? 16 : kTokenScales;
  static constexpr int kValueScales = 2 * kCodesBytes + kKeyScalesBytes;  // offset of the values' scales
  static constexpr int kStageBytes = kValueScales + kQuantizedKeys * kTokenStride;
  static_assert(kQuantizedKeys == kInt4Group && kStageBytes % 256 == 0, "a tile is a group, aligned as the swizzle wants");

  static __device__ __forceinline__ int end_of_codes(const DecodeAttentionWork& work) {
    return min(work.end_key, work.length / kInt4Group * kInt4Group);
  }

  template <typename Copy>
  static __device__ __forceinline__ void copy(uint32_t stage, const Head& head, int key, int) {
    const int lane = threadIdx.x % 32;
    constexpr int kRowBytes = HeadDim / 2;
    copy_quantized_rows<kRowBytes, Copy>(stage, head.keys + int64_t{key} * kRowBytes, kRowBytes, kQuantizedKeys);
    const unsigned char* key_scales =
        reinterpret_cast<const unsigned char*>(head.key_scales + int64_t{key} * (HeadDim / kInt4Group * 2));
#pragma unroll
    for (int at = 16 * lane; at < kKeyScalesBytes; at += 512) {
      Copy::template run<16>(stage + 2 * kCodesBytes + at, key_scales + at, true);
    }
    const unsigned char* value_scales =
        reinterpret_cast<const unsigned char*>(head.value_scales) + (int64_t{key} + lane) * kTokenScales;
    constexpr int kPiece = kTokenScales < 16 ? kTokenScales : 16;
#pragma unroll
    for (int at = 0; at < kTokenScales; at += kPiece) {
      Copy::template run<kPiece>(stage + kValueScales + lane * kTokenStride + at, value_scales + at, true);
    }
    copy_quantized_rows<kRowBytes, Copy>(stage + kCodesBytes, head.values + int64_t{key} * kRowBytes, kRowBytes,
                                         kQuantizedKeys);
  }

  // Columns i and i + 4, i = 2 sub + pair, of eight halves in four words: the order in which a word of codes yields columns.
  static __device__ __forceinline__ uint32_t pair_of_eight(const uint32_t (&halves)[4], int sub, int pair) {
    return pair == 0 ? lower_halves(halves[sub], halves[sub + 2]) : upper_halves(halves[sub], halves[sub + 2]);
  }

  struct Tile {
    const unsigned char* stage;

    __device__ __forceinline__ explicit Tile(const unsigned char* at) : stage(at) {}

    template <typename Mma>
    __device__ __forceinline__ void score(float (&products)[RowTiles][2][4], const Queries& queries) const {
      const uint32_t row = quantized_row_of_lane<HeadDim / 2>(shared_address(stage));
      float zero[RowTiles][4] = {};   // q . zeros, equal for all keys
      float masks[RowTiles][4] = {};  // minus the bias that the masks add
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) products[r][0][c] = products[r][1][c] = 0.0f;
      }
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        uint32_t words[4], scale_words[4], zero_words[4];
        ldmatrix_x4(words, row ^ (chunk << 4));
        const unsigned char* const of_channels = stage + 2 * kCodesBytes + 2 * Queries::column(chunk);
        load_words(scale_words, of_channels);
        load_words(zero_words, of_channels + 2 * HeadDim);
#pragma unroll
        for (int sub = 0; sub < 2; ++sub) {
          uint32_t b[RowTiles][2];
          const uint32_t zeros[2] = {pair_of_eight(zero_words, sub, 0), pair_of_eight(zero_words, sub, 1)};
#pragma unroll
          for (int r = 0; r < RowTiles; ++r) {
            const uint32_t(&q)[2] = queries.b[r][chunk][sub];
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
              b[r][pair] = as_word(__hmul2(as_half2(q[pair]), as_half2(pair_of_eight(scale_words, sub, pair))));
            }
            Mma::run(zero[r], {zeros[0], zeros[0], zeros[1], zeros[1]}, q[0], q[1]);
            Mma::run(masks[r], {kMinusFirstBias, kMinusFirstBias, kMinusSecondBias, kMinusSecondBias}, b[r][0], b[r][1]);
          }
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            const uint32_t first = words[2 * m] >> (8 * sub), second = words[2 * m + 1] >> (8 * sub);
            const uint32_t a[4] = {biased_first_nibbles(first), biased_first_nibbles(second),
                                   biased_second_nibbles(first), biased_second_nibbles(second)};
#pragma unroll
            for (int r = 0; r < RowTiles; ++r) Mma::run(products[r][m], a, b[r][0], b[r][1]);
          }
        }
      }
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          products[r][0][c] += zero[r][c] + masks[r][c];
          products[r][1][c] += zero[r][c] + masks[r][c];
        }
      }
    }

    template <typename Mma>
    __device__ __forceinline__ void add_values(Sums& sums, const uint32_t (&b)[RowTiles][4]) const {
      const int lane = threadIdx.x % 32;
      const unsigned char* const scales = stage + kValueScales;
      const uint32_t row = quantized_row_of_lane<HeadDim / 2>(shared_address(stage) + kCodesBytes);
      constexpr int kGroups = kChunks < 4 ? kChunks : 4;  // groups whose scales are loaded at a time
#pragma unroll
      for (int first = 0; first < kChunks; first += kGroups) {
        uint32_t even[4][kGroups], odd[4][kGroups];  // keys 8 n + 2 t, 8 n + 2 t + 1: scale in the low half, zero high
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const unsigned char* const token = scales + (8 * n + 2 * (lane % 4)) * kTokenStride + 4 * first;
          load_words(even[n], token);
          load_words(odd[n], token + kTokenStride);
        }
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          uint32_t words[4];
          ldmatrix_x4_trans(words, row ^ ((first + g) << 4));
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            __half2 scale[2], zero[2];
#pragma unroll
            for (int far = 0; far < 2; ++far) {
              const int n = 2 * half + far;
              scale[far] = as_half2(lower_halves(even[n][g], odd[n][g]));
              zero[far] = as_half2(upper_halves(even[n][g], odd[n][g]));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              uint32_t a[4];
#pragma unroll
              for (int far = 0; far < 2; ++far) {
                const uint32_t codes = words[2 * half + far] >> (8 * i);
                a[2 * far] = as_word(__hfma2(as_half2(first_nibbles(codes)), scale[far], zero[far]));
                a[2 * far + 1] = as_word(__hfma2(as_half2(second_nibbles(codes)), scale[far], zero[far]));
              }
#pragma unroll
              for (int r = 0; r < RowTiles; ++r) {
                Mma::run(sums.out[r][2 * (first + g) + i], a, b[r][2 * half], b[r][2 * half + 1]);
              }
            }
          }
        }
      }
    }
  };

  // The window as a tile, read directly from global memory: at most one per sequence.
  struct WindowTile {
    const Element* key_rows;
    const Element* value_rows;
    int live;  // rows in the window

    __device__ __forceinline__ WindowTile(const Head& head, int key, int length)
        : key_rows(head.key_window), value_rows(head.value_window), live(length - key) {}

    // Loads 2 * Words consecutive elements of a row as halves; zeros past the last row.
    template <int Words>
    __device__ __forceinline__ void load_halves(uint32_t (&halves)[Words], const Element* window, int row,
                                                int column) const {
      uint32_t raw[Words] = {};
      if (row < live) load_words(raw, window + row * HeadDim + column);
#pragma unroll
      for (int i = 0; i < Words; ++i) {
        const uint16_t low = static_cast<uint16_t>(raw[i]);
        const uint16_t high = static_cast<uint16_t>(raw[i] >> 16);
        halves[i] = pack<__half>(as_float(*reinterpret_cast<const Element*>(&low)),
                                 as_float(*reinterpret_cast<const Element*>(&high)));
        // Infinities become the largest finite halves, as in quantization: 0x7c00 becomes 0x7bff.
        halves[i] -= __vcmpeq2(halves[i] & 0x7fff7fff, 0x7c007c00) & 0x00010001;
      }
    }

    template <typename Mma>
    __device__ __forceinline__ void score(float (&products)[RowTiles][2][4], const Queries& queries) const {
      const int g = threadIdx.x % 32 / 4;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c) products[r][m][c] = 0.0f;
        }
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
          uint32_t first[4], second[4];
          load_halves(first, key_rows, 16 * m + g, Queries::column(chunk));
          load_halves(second, key_rows, 16 * m + 8 + g, Queries::column(chunk));
#pragma unroll
          for (int sub = 0; sub < 2; ++sub) {
            const uint32_t a[4] = {pair_of_eight(first, sub, 0), pair_of_eight(second, sub, 0),
                                   pair_of_eight(first, sub, 1), pair_of_eight(second, sub, 1)};
#pragma unroll
            for (int r = 0; r < RowTiles; ++r) {
              Mma::run(products[r][m], a, queries.b[r][chunk][sub][0], queries.b[r][chunk][sub][1]);
            }
          }
        }
      }
    }

    // The same keys, columns and order as for codes.
    template <typename Mma>
    __device__ __forceinline__ void add_values(Sums& sums, const uint32_t (&b)[RowTiles][4]) const {
      const int g = threadIdx.x % 32 / 4;
      const int t = threadIdx.x % 4;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t columns[2][4];  // [0: this row, 1: eight keys further][column of four], two keys each
#pragma unroll
          for (int far = 0; far < 2; ++far) {
            uint32_t even[2], odd[2];
            const int row = 16 * half + 8 * far + 2 * t;
            load_halves(even, value_rows, row, 32 * chunk + 4 * g);
            load_halves(odd, value_rows, row + 1, 32 * chunk + 4 * g);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              columns[far][2 * i] = lower_halves(even[i], odd[i]);
              columns[far][2 * i + 1] = upper_halves(even[i], odd[i]);
            }
          }
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const uint32_t a[4] = {columns[0][2 * i], columns[0][2 * i + 1], columns[1][2 * i], columns[1][2 * i + 1]};
#pragma unroll
            for (int r = 0; r < RowTiles; ++r) {
              Mma::run(sums.out[r][2 * chunk + i], a, b[r][2 * half], b[r][2 * half + 1]);
            }
          }
        }
      }
    }
  };
};

}  // namespace warpwatch
