// The packed queries of a block as B fragments of fp16, in the order of columns in which lanes have keys' words.
//
// The order of columns within a product is free as long as both sides have the same. A lane with t = lane % 4 has of a key
// one word of WordDims neighbouring columns in each chunk of 16 bytes, and takes of it for step `sub` of mma, halves
// p = 0, 1 of a fragment's k, columns 2 sub + p and 2 sub + p + WordDims / 2: what one mask takes out of a word at once.
//
// Each row is divided by a power of two, so that its largest magnitude lies in [1, 2): no product with a scale leaves fp16,
// and bf16 fits in it. The power goes into the scores in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "decode_attention/decode_attention_work.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/element.cuh"
#include "primitives/mma.cuh"
#include "quantized_decode/quantized_decode_words.cuh"

namespace warpwatch {

// RowTiles times eight queries: a lane holds columns of query 8 r + lane / 4, and, as the scores lie, numbers of queries
// 8 r + 2 t and 8 r + 2 t + 1.
template <int HeadDim, int WordDims, int RowTiles>
struct QuantizedDecodeQueries {
  static constexpr int kWords = HeadDim / 4 / WordDims;  // of a key, for one lane
  static constexpr int kSubs = WordDims / 4;             // steps of mma that a word lasts

  // What load() has asked for: the lane's columns as they lie in memory.
  struct Raw {
    uint32_t words[RowTiles][kWords][WordDims / 2];
  };

  uint32_t b[RowTiles][kWords][kSubs][2];
  float power[RowTiles][2];
  float sum[RowTiles][2];  // of the query's columns, as the fragments hold them

  // The first column of a lane's word.
  static __device__ __forceinline__ int column(int word) { return (4 * word + threadIdx.x % 4) * WordDims; }

  template <typename Element>
  static __device__ __forceinline__ void load(Raw& raw, const DecodeAttentionParams& p, const DecodeAttentionWork& work) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      const int row = 8 * r + threadIdx.x % 32 / 4;
      const bool live = row < work.rows;
      const Element* from = query_row<Element>(p, work, live ? row : 0);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int i = 0; i < WordDims / 2; ++i) raw.words[r][w][i] = 0;
        if (live) load_words(raw.words[r][w], from + column(w));
      }
    }
  }

  template <typename Element>
  __device__ __forceinline__ void take(const Raw& raw) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      float largest = 0.0f;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int i = 0; i < WordDims; ++i) largest = fmaxf(largest, fabsf(element<Element>(raw.words[r][w], i)));
      }
      const int biased = static_cast<int>(__float_as_uint(quad_max(largest)) >> 23);
      const int exponent = min(max(biased - 127, -100), 126);
      const float own_power = __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
      const float inverse = __uint_as_float(static_cast<uint32_t>(127 - exponent) << 23);
      float own_sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int sub = 0; sub < kSubs; ++sub) {
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const int i = 2 * sub + pair;
            b[r][w][sub][pair] = pack<__half>(inverse * element<Element>(raw.words[r][w], i),
                                              inverse * element<Element>(raw.words[r][w], i + WordDims / 2));
            const float2 rounded = __half22float2(as_half2(b[r][w][sub][pair]));
            own_sum += rounded.x + rounded.y;
          }
        }
      }
      own_sum = quad_sum(own_sum);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        power[r][e] = __shfl_sync(0xffffffffu, own_power, 4 * (2 * t + e));
        sum[r][e] = __shfl_sync(0xffffffffu, own_sum, 4 * (2 * t + e));
      }
    }
  }

 private:
  template <typename Element>
  static __device__ __forceinline__ float element(const uint32_t* raw, int i) {
    const uint16_t bits = static_cast<uint16_t>(raw[i / 2] >> (16 * (i % 2)));
    return as_float(*reinterpret_cast<const Element*>(&bits));
  }
};

}  // namespace warpwatch
