// The packed queries of a block as A fragments of fp16, in the order of columns in which lanes read keys' words.
//
// The order of columns within a product is free as long as both sides have the same. A lane with t = lane % 4 reads of a key
// pieces of PieceDims neighbouring columns, piece s from column 4 PieceDims s + PieceDims t on, and of each word (WordDims
// columns) takes for step `sub` of mma, halves p = 0, 1 of a fragment's k, columns 2 sub + p and 2 sub + p + WordDims / 2:
// what one mask takes out of a word at once.
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

// InShared: once for the block, where registers do not suffice; each lane's 16 bytes of a fragment lie side by side.
template <int HeadDim, int WordDims, int PieceDims, bool InShared>
struct QuantizedDecodeQueries {
  static constexpr int kWords = HeadDim / 4 / WordDims;  // of a key, for one lane
  static constexpr int kSubs = WordDims / 4;             // steps of mma that a word lasts

  static constexpr int kSharedBytes = InShared ? kWords * kSubs * 512 : 0;

  uint32_t held[InShared ? 1 : kWords][kSubs][4];
  uint32_t* space;
  float power[2];  // of rows lane / 4 and lane / 4 + 8

  // The first column of a lane's word.
  static __device__ __forceinline__ int column(int word) {
    return word * WordDims / PieceDims * 4 * PieceDims + threadIdx.x % 4 * PieceDims + word * WordDims % PieceDims;
  }

  __device__ __forceinline__ void fragment(uint32_t (&a)[4], int word, int sub) const {
    if constexpr (InShared) {
      load_words(a, space + (word * kSubs + sub) * 128);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) a[e] = held[word][sub][e];
    }
  }

  // All of the block call it.
  template <typename Element>
  __device__ __forceinline__ void take(unsigned char* shared, const DecodeAttentionParams& p,
                                       const DecodeAttentionWork& work) {
    space = reinterpret_cast<uint32_t*>(shared) + threadIdx.x % 32 * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = threadIdx.x % 32 / 4 + 8 * half;
      const bool live = row < work.rows;
      const Element* from = query_row<Element>(p, work, live ? row : 0);
      uint32_t raw[kWords][WordDims / 2];
      float largest = 0.0f;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int i = 0; i < WordDims / 2; ++i) raw[w][i] = 0;
        if (live) load_words(raw[w], from + column(w));
#pragma unroll
        for (int i = 0; i < WordDims; ++i) largest = fmaxf(largest, fabsf(element<Element>(raw[w], i)));
      }
      const int biased = static_cast<int>(__float_as_uint(quad_max(largest)) >> 23);
      const int exponent = min(max(biased - 127, -100), 126);
      power[half] = __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
      const float inverse = __uint_as_float(static_cast<uint32_t>(127 - exponent) << 23);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int sub = 0; sub < kSubs; ++sub) {
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const uint32_t both = pack<__half>(inverse * element<Element>(raw[w], 2 * sub + pair),
                                               inverse * element<Element>(raw[w], 2 * sub + pair + WordDims / 2));
            if constexpr (!InShared) {
              held[w][sub][2 * pair + half] = both;
            } else if (threadIdx.x < 32) {
              space[(w * kSubs + sub) * 128 + 2 * pair + half] = both;
            }
          }
        }
      }
    }
    if constexpr (InShared) __syncthreads();
  }

 private:
  template <typename Element>
  static __device__ __forceinline__ float element(const uint32_t* raw, int i) {
    const uint16_t bits = static_cast<uint16_t>(raw[i / 2] >> (16 * (i % 2)));
    return as_float(*reinterpret_cast<const Element*>(&bits));
  }
};

}  // namespace warpwatch
