// From packed nibbles to the A fragments of an mma (primitives/mma.cuh) or a wgmma.
//
// The layout (int4_linear.h) stores 512 bytes for 16 outputs and 64 of k, 16 bytes per lane. Word s is the lane's A fragment
// for k 16 s to 16 s + 15, up to the conversion nibble - zero: nibble i (bits 4 i to 4 i + 3) is the lower half of a[i] for i <
// 4 and the upper half of a[i - 4] otherwise. So a warp reads 512 contiguous bytes, needs no shuffles, and x keeps its order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "int4_linear/int4_linear.h"
#include "primitives/element.cuh"
#include "primitives/mma.cuh"

namespace warpwatch {

// (word & mask) | bits as one LOP3 with truth table 0xea = (a & b) | c. From C++ the compiler emits two, since an instruction
// encodes only one constant; here the other constant stays in a register.
template <uint32_t kMask, uint32_t kBits>
__device__ __forceinline__ uint32_t masked_or(uint32_t word) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;\n" : "=r"(result) : "r"(word), "n"(kMask), "r"(kBits));
  return result;
}

// The slabs of 128 of k that one of `splits` blocks owns.
struct Int4Part {
  int begin, end;

  __device__ __forceinline__ Int4Part(int k, int splits, int rank) {
    const int slabs = (k - 1) / 128 + 1, part = (slabs - 1) / splits + 1;
    begin = min(rank * part, slabs);
    end = min(begin + part, slabs);
  }
};

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// mma 16 x 8 x 16: one instruction from sm_80 on, two on sm_75.
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

// a * b + c on two packed values, given and returned as bits.
template <typename Pair>
__device__ __forceinline__ uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
  const Pair d = __hfma2(*reinterpret_cast<const Pair*>(&a), *reinterpret_cast<const Pair*>(&b),
                         *reinterpret_cast<const Pair*>(&c));
  return *reinterpret_cast<const uint32_t*>(&d);
}

// The addends of the FMA below that map the masked nibbles to nibble - zero, duplicated in both halves: for the first and the
// last eight of the 16 outputs.
template <typename Element>
struct Int4Zeros {
  uint32_t first, last;

  // Zero 8, without zero points: constants, which the compiler folds into the FMA.
  static __device__ __forceinline__ Int4Zeros eight() {
    if constexpr (std::is_same_v<Element, __half>) return {0xe408e408, 0xd480d480};  // -1032, -72
    return {0xc308c308, 0xc308c308};                                                 // -136
  }

  // Zeros are 0 to 15. In the bits of -1024 - zero and -128 - zero the zero is the lowest nibble; in those of -64 - zero it is
  // four bits from the end.
  static __device__ __forceinline__ Int4Zeros of(uint32_t first, uint32_t last) {
    first *= 0x10001, last *= 0x10001;
    if constexpr (std::is_same_v<Element, __half>) return {0xe400e400 | first, 0xd400d400 | (last << 4)};
    return {0xc300c300 | first, 0xc300c300 | last};
  }
};

// Converts a word to an A fragment, exactly: a[0] and a[2] belong to the first eight outputs, a[1] and a[3] to the last.
template <typename Element>
__device__ __forceinline__ void dequantize(uint32_t word, uint32_t (&a)[4], Int4Zeros<Element> zeros) {
  if constexpr (std::is_same_v<Element, __half>) {
    // fp16 has 10 mantissa bits. 1024 is 0x6400: a nibble in the lowest bits reads 1024 + nibble, one in the next four bits
    // 1024 + 16 * nibble. One FMA undoes either, exactly.
    constexpr uint32_t kOne = 0x3c003c00, kSixteenth = 0x2c002c00;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t shifted = word >> (4 * i);
      a[i] = fma_pair<__half2>(masked_or<0x000f000f, 0x64006400>(shifted), kOne, zeros.first);
      a[i + 1] = fma_pair<__half2>(masked_or<0x00f000f0, 0x64006400>(shifted), kSixteenth, zeros.last);
    }
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    // bf16 has 7 mantissa bits. 128 is 0x4300: only its lowest four bits have room for a nibble.
    constexpr uint32_t kOne = 0x3f803f80;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t value = masked_or<0x000f000f, 0x43004300>(word >> (4 * i));
      a[i] = fma_pair<__nv_bfloat162>(value, kOne, i % 2 == 0 ? zeros.first : zeros.last);
    }
  }
}

// Scales and zero points of one group, for outputs g and g + 8 of 16.
template <typename Element, bool kZeroPoints>
struct Int4Steps {
  Element scales[2];
  uint32_t zero_points[2];  // never written, so no registers, unless kZeroPoints

  __device__ __forceinline__ Int4Zeros<Element> zeros() const {
    if constexpr (kZeroPoints) return Int4Zeros<Element>::of(zero_points[0], zero_points[1]);
    return Int4Zeros<Element>::eight();
  }
};

// Addresses of a thread's scales and zero points. Outputs past the end read the last one's; their results are not stored.
template <typename Element, int kGroup, bool kZeroPoints>
struct Int4StepRows {
  const Element* scales;
  const uint8_t* zero_points;
  int64_t first;  // index of the first of the two outputs' elements
  int to_upper;   // distance to the second, in elements

  Int4StepRows() = default;
  __device__ __forceinline__ Int4StepRows(const Int4LinearParams& p, int first_n, int lane)
      : scales(static_cast<const Element*>(p.scales)), zero_points(p.zero_points) {
    const int lower = min(first_n + lane / 4, p.n - 1), upper = min(first_n + 8 + lane / 4, p.n - 1);
    const int groups = p.k / kGroup;
    first = static_cast<int64_t>(lower) * groups;
    to_upper = (upper - lower) * groups;
  }

  __device__ __forceinline__ void load(int group, Int4Steps<Element, kZeroPoints>& steps) const {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      steps.scales[upper] = scales[first + (group + upper * to_upper)];
      if constexpr (kZeroPoints) steps.zero_points[upper] = zero_points[first + (group + upper * to_upper)];
    }
  }
};

// sums += scale * c: nibble - zero and x are exact in the mma, so only the scale's product is rounded, in fp32.
template <typename Element, bool kZeroPoints, int kXTiles>
__device__ __forceinline__ void add_scaled(float (&sums)[kXTiles][4], const Int4Steps<Element, kZeroPoints>& steps,
                                           const float (&c)[kXTiles][4]) {
  const float scales[2] = {as_float(steps.scales[0]), as_float(steps.scales[1])};
#pragma unroll
  for (int i = 0; i < kXTiles; ++i) {
#pragma unroll
    for (int v = 0; v < 4; ++v) sums[i][v] += scales[v / 2] * c[i][v];
  }
}

// A lane's weights of one group, for kTiles tiles of 16 outputs.
template <typename Element, int kGroup, int kTiles, bool kZeroPoints>
struct Int4Weights {
  uint4 words[kTiles][kGroup / 64];
  Int4Steps<Element, kZeroPoints> steps[kTiles];

  // The word of step s of the group, 16 of k.
  __device__ __forceinline__ uint32_t word(int tile, int s) const {
    const uint4& four = words[tile][s / 4];
    return s % 4 == 0 ? four.x : s % 4 == 1 ? four.y : s % 4 == 2 ? four.z : four.w;
  }
};

template <typename Element, int kGroup, int kTiles, bool kZeroPoints>
struct Int4WeightRows {
  const uint8_t* packed[kTiles];
  Int4StepRows<Element, kGroup, kZeroPoints> steps[kTiles];

  // first_n is a multiple of 16. Tiles past the end read the last one.
  __device__ __forceinline__ Int4WeightRows(const Int4LinearParams& p, int first_n, int lane) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int64_t n16_tile = min(first_n / 16 + tile, (p.n - 1) / 16);
      packed[tile] = p.packed_weight + n16_tile * 8 * p.k + lane * 16;
      steps[tile] = Int4StepRows<Element, kGroup, kZeroPoints>(p, first_n + 16 * tile, lane);
    }
  }

  __device__ __forceinline__ void load(int group, Int4Weights<Element, kGroup, kTiles, kZeroPoints>& weights) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < kGroup / 64; ++i) {
        const uint8_t* from = packed[tile] + static_cast<int64_t>(group) * (kGroup * 8) + i * 512;
        weights.words[tile][i] = __ldg(reinterpret_cast<const uint4*>(from));
      }
      steps[tile].load(group, weights.steps[tile]);
    }
  }
};

}  // namespace warpwatch
