// KIVI's 4-bit format as quantized_decode.cuh wants it: tiles of one group, 32 keys and values.
//
// A lane's piece of a key is kKeyBytes, of a value kValueBytes; a tile in shared memory is
//   keys   [mma's key tile n][piece of the key][lane] kKeyBytes
//   values [key 8 t + i of the lane][lane] kValueBytes
//   scales and zeros of the keys, as they lie in the cache
//   scales and zeros of the values, those of key j at j ^ (j / 8): so the four lanes of a quad, 8 keys apart, ask four banks
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

template <typename Element, int HeadDim>
struct Int4Format {
  using Cache = Int4Cache;
  using Head = Int4DeviceHead<Element>;
  static constexpr bool kHasWindow = true;
  static constexpr bool kScaledValues = false;
  static constexpr int kWordColumns = 8;
  static constexpr int kPieceColumns = HeadDim / 8;
  static constexpr int kKeyBytes = HeadDim >= 128 ? 16 : 8;
  static constexpr int kKeyPieces = HeadDim / 8 / kKeyBytes;
  static constexpr int kValueBytes = HeadDim / 16;
  using Queries = QuantizedDecodeQueries<HeadDim, 8, 2 * kKeyBytes, HeadDim == 256>;
  static constexpr int kCodesBytes = kQuantizedKeys * HeadDim / 2;
  static constexpr int kScalesBytes = 4 * HeadDim;  // of the keys; and of the values
  static constexpr int kStageBytes = 2 * kCodesBytes + 2 * kScalesBytes;
  static constexpr int kTokenScales = HeadDim / 8;  // bytes: scales and zeros of one value
  static_assert(kQuantizedKeys == kInt4Group, "a tile is a group");

  static __device__ __forceinline__ int end_of_codes(const DecodeAttentionWork& work) {
    return min(work.end_key, work.length / kInt4Group * kInt4Group);
  }
  static __device__ __forceinline__ int scales_of_token(int token) { return (token ^ (token / 8)) * kTokenScales; }

  template <typename Copy>
  static __device__ __forceinline__ void copy(unsigned char* stage, const Head& head, int key, int) {
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const uint8_t* keys = head.keys + int64_t{key} * (HeadDim / 2) + kKeyBytes * t;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int s = 0; s < kKeyPieces; ++s) {
        Copy::template run<kKeyBytes>(stage + ((n * kKeyPieces + s) * 32 + lane) * kKeyBytes,
                                      keys + quantized_key_of_lane(n) * (HeadDim / 2) + 4 * kKeyBytes * s, true);
      }
    }
    unsigned char* const scales = stage + 2 * kCodesBytes;
    const unsigned char* key_scales =
        reinterpret_cast<const unsigned char*>(head.key_scales + int64_t{key} * (HeadDim / kInt4Group * 2));
#pragma unroll
    for (int at = 16 * lane; at < kScalesBytes; at += 512) Copy::template run<16>(scales + at, key_scales + at, true);
    const unsigned char* value_scales =
        reinterpret_cast<const unsigned char*>(head.value_scales) + (int64_t{key} + lane) * kTokenScales;
    constexpr int kPiece = kTokenScales < 16 ? kTokenScales : 16;
#pragma unroll
    for (int at = 0; at < kTokenScales; at += kPiece) {
      Copy::template run<kPiece>(scales + kScalesBytes + scales_of_token(lane) + at, value_scales + at, true);
    }
    const uint8_t* values = head.values + (int64_t{key} + 8 * t) * (HeadDim / 2) + kValueBytes * g;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      Copy::template run<kValueBytes>(stage + kCodesBytes + (i * 32 + lane) * kValueBytes, values + i * (HeadDim / 2),
                                      true);
    }
  }

  // Columns i and i + 4 of four words of eight halves, i = 2 sub + pair: what a word of codes gives for the same step.
  static __device__ __forceinline__ uint32_t pair_of_eight(const uint32_t (&halves)[4], int sub, int pair) {
    return pair == 0 ? lower_halves(halves[sub], halves[sub + 2]) : upper_halves(halves[sub], halves[sub + 2]);
  }

  // The values of keys 8 t + 4 half .. 8 t + 4 half + 3, two and two.
  struct Values {
    uint32_t words[4][kValueBytes / 4];
    __half2 scales[2], zeros[2];

    // Tiles 8 w .. 8 w + 7 of mma: nibble i of the word is column w, tile 8 w + i.
    __device__ __forceinline__ void fragments(uint32_t (&b)[kWordColumns][2], int w) const {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const uint32_t four = upper ? upper_halves(words[2 * pair][w], words[2 * pair + 1][w])
                                      : lower_halves(words[2 * pair][w], words[2 * pair + 1][w]);
          const auto value = [&](__half2 code) { return as_word(__hfma2(code, scales[pair], zeros[pair])); };
          b[4 * upper][pair] = value(first_nibbles_as_halves(four));
          b[4 * upper + 1][pair] = value(second_nibbles_as_halves(four));
          b[4 * upper + 2][pair] = value(first_nibbles_as_halves(four >> 8));
          b[4 * upper + 3][pair] = value(second_nibbles_as_halves(four >> 8));
        }
      }
    }
  };

  struct Tile {
    const unsigned char* stage;

    __device__ __forceinline__ explicit Tile(const unsigned char* at) : stage(at) {}

    template <typename Mma>
    __device__ __forceinline__ void score(float (&scores)[4][4], const Queries& queries) const {
      const int lane = threadIdx.x % 32;
      float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // q . zeros, alike for each key
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[n][c] = 0.0f;
      }
#pragma unroll
      for (int s = 0; s < kKeyPieces; ++s) {
        uint32_t words[4][kKeyBytes / 4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          load_words(words[n], stage + ((n * kKeyPieces + s) * 32 + lane) * kKeyBytes);
        }
#pragma unroll
        for (int w = 0; w < kKeyBytes / 4; ++w) {
          const int word = s * (kKeyBytes / 4) + w;
          const unsigned char* const of_channels = stage + 2 * kCodesBytes + 2 * Queries::column(word);
          uint32_t scale_words[4], zero_words[4];
          load_words(scale_words, of_channels);
          load_words(zero_words, of_channels + 2 * HeadDim);
#pragma unroll
          for (int sub = 0; sub < 2; ++sub) {
            uint32_t q[4];
            queries.fragment(q, word, sub);
            Mma::run(zero, q, pair_of_eight(zero_words, sub, 0), pair_of_eight(zero_words, sub, 1));
            uint32_t a[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              a[e] = as_word(__hmul2(as_half2(q[e]), as_half2(pair_of_eight(scale_words, sub, e / 2))));
            }
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              const uint32_t codes = words[n][w] >> (8 * sub);
              Mma::run(scores[n], a, as_word(first_nibbles_as_halves(codes)), as_word(second_nibbles_as_halves(codes)));
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[n][c] += zero[c];
      }
    }

    __device__ __forceinline__ Values values(int half) const {
      Values values;
      const int lane = threadIdx.x % 32;
      const int token = 8 * (lane % 4) + 4 * half;
      const int group = 4 * (lane / 4 * kPieceColumns / kInt4Group);  // in bytes
      uint32_t both[4];                                               // scale below, zero above
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        load_words(values.words[i], stage + kCodesBytes + ((4 * half + i) * 32 + lane) * kValueBytes);
        both[i] = *reinterpret_cast<const uint32_t*>(stage + 2 * kCodesBytes + kScalesBytes +
                                                     scales_of_token(token + i) + group);
      }
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        values.scales[pair] = as_half2(lower_halves(both[2 * pair], both[2 * pair + 1]));
        values.zeros[pair] = as_half2(upper_halves(both[2 * pair], both[2 * pair + 1]));
      }
      return values;
    }
  };

  // The same of the window, straight from global memory: one tile of each sequence at most.
  struct WindowTile {
    const Element* key_rows;
    const Element* value_rows;
    int live;  // rows

    __device__ __forceinline__ WindowTile(const Head& head, int key, int length)
        : key_rows(head.key_window), value_rows(head.value_window), live(length - key) {}

    // Eight neighbours of a row as halves; zeros behind the last row.
    __device__ __forceinline__ void load_eight(uint32_t (&halves)[4], const Element* window, int row, int column) const {
      uint32_t raw[4] = {0, 0, 0, 0};
      if (row < live) load_words(raw, window + row * HeadDim + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint16_t low = static_cast<uint16_t>(raw[i]);
        const uint16_t high = static_cast<uint16_t>(raw[i] >> 16);
        halves[i] = pack<__half>(as_float(*reinterpret_cast<const Element*>(&low)),
                                 as_float(*reinterpret_cast<const Element*>(&high)));
      }
    }

    template <typename Mma>
    __device__ __forceinline__ void score(float (&scores)[4][4], const Queries& queries) const {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[n][c] = 0.0f;
        if constexpr (HeadDim == 256) asm volatile("" ::: "memory");  // registers hold one key's loads, not four's
#pragma unroll
        for (int word = 0; word < Queries::kWords; ++word) {
          uint32_t halves[4];
          load_eight(halves, key_rows, quantized_key_of_lane(n), Queries::column(word));
#pragma unroll
          for (int sub = 0; sub < 2; ++sub) {
            uint32_t a[4];
            queries.fragment(a, word, sub);
            Mma::run(scores[n], a, pair_of_eight(halves, sub, 0), pair_of_eight(halves, sub, 1));
          }
        }
      }
    }

    struct WindowValues {
      const WindowTile& tile;
      int half;

      __device__ __forceinline__ void fragments(uint32_t (&b)[kWordColumns][2], int w) const {
        const int lane = threadIdx.x % 32;
        if constexpr (HeadDim == 256) asm volatile("" ::: "memory");  // likewise
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          uint32_t first[4], second[4];
          const int row = 8 * (lane % 4) + 4 * half + 2 * pair;
          const int column = lane / 4 * kPieceColumns + 8 * w;
          tile.load_eight(first, tile.value_rows, row, column);
          tile.load_eight(second, tile.value_rows, row + 1, column);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            b[2 * i][pair] = lower_halves(first[i], second[i]);
            b[2 * i + 1][pair] = upper_halves(first[i], second[i]);
          }
        }
      }
    };
    __device__ __forceinline__ WindowValues values(int half) const { return {*this, half}; }
  };
};

}  // namespace warpwatch
