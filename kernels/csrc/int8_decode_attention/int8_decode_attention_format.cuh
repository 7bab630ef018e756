// The 8-bit format as quantized_decode.cuh wants it.
//
// A lane's piece of a key is 16 columns, of a value kPieceColumns; a tile in shared memory is
//   keys   [mma's key tile n][piece of the key][lane] 16 bytes
//   values [key 8 t + i of the lane][piece of the value][lane] kPieceColumns bytes
//   scales of the 32 keys, of the 32 values
#pragma once

#include "int8_decode_attention/int8_decode_attention.h"
#include "quantized_decode/quantized_decode.cuh"

namespace warpwatch {

template <int HeadDim, bool QueriesInShared>
struct Int8Format {
  using Cache = Int8Cache;
  using Head = Int8Head;
  using Queries = QuantizedDecodeQueries<HeadDim, 4, 16, QueriesInShared>;
  static constexpr bool kHasWindow = false;
  static constexpr bool kScaledValues = true;
  static constexpr int kWordColumns = 4;
  static constexpr int kPieceColumns = HeadDim >= 128 ? 16 : 8;
  static constexpr int kKeyPieces = HeadDim / 64;
  static constexpr int kValuePieces = HeadDim / 8 / kPieceColumns;
  static constexpr int kCodesBytes = kQuantizedKeys * HeadDim;
  static constexpr int kScalesBytes = kQuantizedKeys * 4;
  static constexpr int kStageBytes = 2 * kCodesBytes + 2 * kScalesBytes;
  static_assert(HeadDim % 64 == 0, "whole pieces for each lane");

  static __device__ __forceinline__ int end_of_codes(const DecodeAttentionWork& work) { return work.end_key; }

  // Keys from `end` on become zeros with scale 0.
  template <typename Copy>
  static __device__ __forceinline__ void copy(unsigned char* stage, const Head& head, int key, int end) {
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int of_lane = key + quantized_key_of_lane(n);
      const int8_t* row = head.keys + of_lane * head.key_stride + 16 * t;
#pragma unroll
      for (int s = 0; s < kKeyPieces; ++s) {
        Copy::template run<16>(stage + ((n * kKeyPieces + s) * 32 + lane) * 16, row + 64 * s, of_lane < end);
      }
    }
    Copy::template run<4>(stage + 2 * kCodesBytes + 4 * lane, head.key_scales + key + lane, key + lane < end);
    Copy::template run<4>(stage + 2 * kCodesBytes + kScalesBytes + 4 * lane, head.value_scales + key + lane,
                          key + lane < end);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int of_lane = key + 8 * t + i;
      const int8_t* row = head.values + of_lane * head.value_stride + kPieceColumns * g;
#pragma unroll
      for (int s = 0; s < kValuePieces; ++s) {
        Copy::template run<kPieceColumns>(
            stage + kCodesBytes + ((i * kValuePieces + s) * 32 + lane) * kPieceColumns, row + 8 * kPieceColumns * s,
            of_lane < end);
      }
    }
  }

  // The values of keys 8 t + 4 half .. 8 t + 4 half + 3.
  struct Values {
    uint32_t words[4][kValuePieces][kPieceColumns / 4];

    // Tiles 4 w .. 4 w + 3 of mma: byte i of the word is column w, tile 4 w + i.
    __device__ __forceinline__ void fragments(uint32_t (&b)[kWordColumns][2], int w) const {
      const int s = w / (kPieceColumns / 4);
      const int word = w % (kPieceColumns / 4);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t first = words[2 * pair][s][word];
        const uint32_t second = words[2 * pair + 1][s][word];
        const uint32_t low = lower_halves(first, second);
        const uint32_t high = upper_halves(first, second);
        b[0][pair] = even_bytes_as_halves(low);
        b[1][pair] = even_bytes_as_halves(low >> 8);
        b[2][pair] = even_bytes_as_halves(high);
        b[3][pair] = even_bytes_as_halves(high >> 8);
      }
    }
  };

  struct Tile {
    const unsigned char* stage;

    __device__ __forceinline__ explicit Tile(const unsigned char* at) : stage(at) {}

    template <typename Mma>
    __device__ __forceinline__ void score(float (&scores)[4][4], const Queries& queries) const {
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[n][c] = 0.0f;
      }
#pragma unroll
      for (int s = 0; s < kKeyPieces; ++s) {
        uint32_t words[4][4];
#pragma unroll
        for (int n = 0; n < 4; ++n) load_words(words[n], stage + ((n * kKeyPieces + s) * 32 + lane) * 16);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          uint32_t a[4];
          queries.fragment(a, 4 * s + w, 0);
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            Mma::run(scores[n], a, even_bytes_as_halves(words[n][w]),
                     even_bytes_as_halves(words[n][w] >> 8));
          }
        }
      }
      float scales[4][2];
      load_scales(scales, stage + 2 * kCodesBytes);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[n][c] *= scales[n][c % 2];
      }
    }

    __device__ __forceinline__ void scales(float (&scales)[4][2], float (&logs)[4][2]) const {
      load_scales(scales, stage + 2 * kCodesBytes + kScalesBytes);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        logs[n][0] = __log2f(scales[n][0]);
        logs[n][1] = __log2f(scales[n][1]);
      }
    }

    __device__ __forceinline__ Values values(int half) const {
      Values values;
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int s = 0; s < kValuePieces; ++s) {
          load_words(values.words[i][s], stage + kCodesBytes +
                                             (((4 * half + i) * kValuePieces + s) * 32 + lane) * kPieceColumns);
        }
      }
      return values;
    }

   private:
    // Of keys 8 t .. 8 t + 7.
    static __device__ __forceinline__ void load_scales(float (&scales)[4][2], const unsigned char* from) {
      const float4* fours = reinterpret_cast<const float4*>(from) + 2 * (threadIdx.x % 4);
      const float4 low = fours[0];
      const float4 high = fours[1];
      scales[0][0] = low.x;
      scales[0][1] = low.y;
      scales[1][0] = low.z;
      scales[1][1] = low.w;
      scales[2][0] = high.x;
      scales[2][1] = high.y;
      scales[3][0] = high.z;
      scales[3][1] = high.w;
    }
  };
};

}  // namespace warpwatch
