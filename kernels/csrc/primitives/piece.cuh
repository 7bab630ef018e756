// A vector access of 16 bytes (the widest load) or fewer, packed as in memory and widened to fp32 for arithmetic.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "primitives/element.cuh"
#include "primitives/kept_load.cuh"

namespace warpwatch {

__device__ inline float2 widen(__half2 pair) { return __half22float2(pair); }
__device__ inline float2 widen(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ inline float2 widen(float2 pair) { return pair; }

__device__ inline void narrow(float2 pair, __half2& to) { to = __float22half2_rn(pair); }
__device__ inline void narrow(float2 pair, __nv_bfloat162& to) { to = __float22bfloat162_rn(pair); }
__device__ inline void narrow(float2 pair, float2& to) { to = pair; }

template <class Element>
struct PairOf;
template <>
struct PairOf<__half> {
  using Type = __half2;
};
template <>
struct PairOf<__nv_bfloat16> {
  using Type = __nv_bfloat162;
};
template <>
struct PairOf<float> {
  using Type = float2;
};

template <class Element, int kCount = 16 / sizeof(Element)>
union Piece {
  using Pair = typename PairOf<Element>::Type;
  static constexpr int kElements = kCount, kBytes = kElements * sizeof(Element);
  static constexpr int kPairs = kElements / 2;
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4);
  using Bits = std::conditional_t<kBytes == 16, uint4, std::conditional_t<kBytes == 8, uint2, uint32_t>>;

  Bits bits;
  Pair pairs[kPairs];

  __device__ Piece() {}

  // Evict-first loads make additions, norms and rope of 268 MB and more 3 to 14 % slower on an H200.
  __device__ void load_once(const Element* from) { bits = *reinterpret_cast<const Bits*>(from); }
  // kept_load.cuh has why.
  __device__ void load_streamed(const Element* from) { bits = warpwatch::load_streamed(reinterpret_cast<const Bits*>(from)); }
  __device__ void load_streamed(const Element* from, bool there) {
    bits = warpwatch::load_streamed(reinterpret_cast<const Bits*>(from), there);
  }
  // For what only reads, many short jobs beside each other: sums of 32768 rows of 8 KB take 69.1 us so, 72.5 with plain
  // loads (H200). One sum cut into parts is the other way round: 138 and 134 us of 537 MB.
  __device__ void load_nc_no_allocate(const Element* from) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(from));
  }
  __device__ void load_shared_by_many(const Element* from) { bits = __ldg(reinterpret_cast<const Bits*>(from)); }
  __device__ void zero() { bits = Bits{}; }
  // The compiler may no longer reuse what it widened before: 16 bytes stay in registers, not the 32 of their floats.
  __device__ void reload_from_packed() { asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w)); }
  __device__ void store(Element* to) const { *reinterpret_cast<Bits*>(to) = bits; }
};

// Whether pieces may begin at this address; null does for an operand that is not there.
inline bool on_piece(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace warpwatch
