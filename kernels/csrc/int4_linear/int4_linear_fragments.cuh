// From packed nibbles in memory to the registers of an mma (primitives/mma.cuh).
//
// An mma sums over 16 values of k and does not care which ones, as long as both operands mean the same ones. So nothing
// is shuffled between threads: with g = lane / 4 and t = lane % 4, thread (g, t) owns the t-th quarter of a group in k,
// for weight rows g and g + 8 and for row g of x. It reads its quarter of a weight row with one load of 16 bytes (8 for
// groups of 64); the four threads of a row read 64 bytes (32) that lie side by side.
//
//   word j of the quarter   k = first, ..., first + 7          first = group * kGroup + t * kGroup / 4 + 8 * j
//   pair i of the word      k = first + i in the lower half, first + i + 4 in the upper
//   mma s of the word       pairs 2s (a[0], a[1], b[0]) and 2s + 1 (a[2], a[3], b[1])
#pragma once

#include <cstdint>
#include <type_traits>

#include "int4_linear/int4_linear.h"
#include "int4_linear/int4_linear_bits.cuh"
#include "primitives/element.cuh"
#include "primitives/mma.cuh"

namespace warpwatch {

// 16 x 8 x 16 as the hardware has it: one instruction from sm_80 on, two on sm_75.
struct MmaSm75 {
  template <typename Element>
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k8(c, a[0], a[1], b0);
    mma_m16n8k8(c, a[2], a[3], b1);
  }
};

struct MmaSm80 {
  template <typename Element>
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16<Element>(c, a, b0, b1);
  }
};

// a * b + c for two values at once, on their bits.
template <typename Pair>
__device__ __forceinline__ uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
  const Pair d = __hfma2(*reinterpret_cast<const Pair*>(&a), *reinterpret_cast<const Pair*>(&b),
                         *reinterpret_cast<const Pair*>(&c));
  return *reinterpret_cast<const uint32_t*>(&d);
}

// What brings a dequantized nibble down to nibble - zero: the addends of the two fma below, twice in 32 bits.
template <typename Element>
struct Int4Zero {
  uint32_t low, high;

  // The middle of the nibbles, where no zero point is given. Constants, so the compiler puts them into the fma.
  static __device__ __forceinline__ Int4Zero eight() {
    if constexpr (std::is_same_v<Element, __half>) return {0xe408e408, 0xd480d480};  // -1032, -72
    return {0xc308c308, 0};                                                          // -136
  }

  // zero is 0 to 15. -1024 - zero and -128 - zero end in the nibble; -64 - zero has it four bits from the end.
  static __device__ __forceinline__ Int4Zero of(uint32_t zero) {
    const uint32_t twice = zero * 0x10001;
    if constexpr (std::is_same_v<Element, __half>) return {0xe400e400 | twice, 0xd400d400 | (twice << 4)};
    return {0xc300c300 | twice, 0};
  }
};

// Eight nibbles to eight exact values nibble - zero, in pairs (i, i + 4).
template <typename Element>
__device__ __forceinline__ void dequantize(uint32_t word, uint32_t (&pairs)[4],
                                           Int4Zero<Element> zero) {
  if constexpr (std::is_same_v<Element, __half>) {
    // fp16 has 10 bits of mantissa: 1024 is 0x6400, and a nibble put into its lowest bits reads 1024 + nibble, into the
    // next four 1024 + 16 * nibble. One fma brings both back, and its result is exact.
    constexpr uint32_t kOne = 0x3c003c00, kSixteenth = 0x2c002c00;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t shifted = word >> (4 * i);
      pairs[i] = fma_pair<__half2>(masked_or<0x000f000f, 0x64006400>(shifted), kOne, zero.low);
      pairs[i + 1] = fma_pair<__half2>(masked_or<0x00f000f0, 0x64006400>(shifted), kSixteenth, zero.high);
    }
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    // bf16 has 7 bits of mantissa: 128 is 0x4300, and only its lowest four bits have room for a nibble.
    constexpr uint32_t kOne = 0x3f803f80;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = fma_pair<__nv_bfloat162>(masked_or<0x000f000f, 0x43004300>(word >> (4 * i)), kOne, zero.low);
    }
  }
}

// Eight neighbours of x in the order of dequantize: pairs (i, i + 4).
__device__ __forceinline__ uint4 paired(const uint4& x) {
  return {__byte_perm(x.x, x.z, 0x5410), __byte_perm(x.x, x.z, 0x7632),   // 0 4, 1 5
          __byte_perm(x.y, x.w, 0x5410), __byte_perm(x.y, x.w, 0x7632)};  // 2 6, 3 7
}

// A thread's quarter of one group, for two rows of each weight tile.
template <typename Element, int kWords, int kTiles, bool kZeroPoints>
struct Int4Weights {
  uint32_t words[kTiles][2][kWords];
  Element scales[kTiles][2];
  uint32_t zeros[kTiles][2];  // untouched, and so no registers, unless kZeroPoints

  __device__ __forceinline__ Int4Zero<Element> zero(int tile, int upper) const {
    if constexpr (kZeroPoints) return Int4Zero<Element>::of(zeros[tile][upper]);
    return Int4Zero<Element>::eight();
  }
};

// Where a thread finds its weights. Rows past the end of the matrix read the last one; their results are not stored.
template <typename Element, int kGroup, int kTiles, bool kZeroPoints>
struct Int4WeightRows {
  static constexpr int kWords = kGroup / 32;  // of 32 bits, in a quarter of a group

  const uint8_t* packed[kTiles][2];
  const Element* scales[kTiles][2];
  const uint8_t* zeros[kTiles][2];

  __device__ __forceinline__ Int4WeightRows(const Int4LinearParams& p, int first_row, int lane) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const int64_t row = min(first_row + 16 * tile + 8 * upper + lane / 4, p.n - 1);
        packed[tile][upper] = p.packed_weight + row * (p.k / 2) + lane % 4 * (kGroup / 8);
        scales[tile][upper] = static_cast<const Element*>(p.scales) + row * (p.k / kGroup);
        if constexpr (kZeroPoints) zeros[tile][upper] = p.zero_points + row * (p.k / kGroup);
      }
    }
  }

  __device__ __forceinline__ void load(int group, Int4Weights<Element, kWords, kTiles, kZeroPoints>& weights) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const uint8_t* from = packed[tile][upper] + group * (kGroup / 2);
        uint32_t(&words)[kWords] = weights.words[tile][upper];
        // __ldcs: each weight is read once, so the caches may drop it first.
        if constexpr (kWords == 4) {
          const uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(from));
          words[0] = loaded.x, words[1] = loaded.y, words[2] = loaded.z, words[3] = loaded.w;
        } else {
          static_assert(kWords == 2, "groups of 64 or 128");
          const uint2 loaded = __ldcs(reinterpret_cast<const uint2*>(from));
          words[0] = loaded.x, words[1] = loaded.y;
        }
        weights.scales[tile][upper] = scales[tile][upper][group];
        if constexpr (kZeroPoints) weights.zeros[tile][upper] = zeros[tile][upper][group];
      }
    }
  }
};

// c[tile][x] += word j of the weights times the same eight k of x, which come as pairs.
template <typename Mma, typename Element, int kWords, int kTiles, int kXTiles, bool kZeroPoints>
__device__ __forceinline__ void multiply_word(float (&c)[kTiles][kXTiles][4],
                                              const Int4Weights<Element, kWords, kTiles, kZeroPoints>& weights, int j,
                                              const uint4 (&x)[kXTiles]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    uint32_t lower[4], upper[4];
    dequantize<Element>(weights.words[tile][0][j], lower, weights.zero(tile, 0));
    dequantize<Element>(weights.words[tile][1][j], upper, weights.zero(tile, 1));
    const uint32_t first[4] = {lower[0], upper[0], lower[1], upper[1]};
    const uint32_t second[4] = {lower[2], upper[2], lower[3], upper[3]};
#pragma unroll
    for (int i = 0; i < kXTiles; ++i) {
      Mma::template run<Element>(c[tile][i], first, x[i].x, x[i].y);
      Mma::template run<Element>(c[tile][i], second, x[i].z, x[i].w);
    }
  }
}

// sums += scale * c: nibble - zero and x are exact in the mma, so the scale's rounding is the only one before fp32.
template <typename Element, int kWords, int kTiles, int kXTiles, bool kZeroPoints>
__device__ __forceinline__ void add_scaled(float (&sums)[kTiles][kXTiles][4],
                                           const Int4Weights<Element, kWords, kTiles, kZeroPoints>& weights,
                                           const float (&c)[kTiles][kXTiles][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float scale = as_float(weights.scales[tile][v / 2]);
#pragma unroll
      for (int i = 0; i < kXTiles; ++i) sums[tile][i][v] += scale * c[tile][i][v];
    }
  }
}

}  // namespace warpwatch
