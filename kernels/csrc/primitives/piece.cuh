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

  // No evict_first hint: on an H200 it makes additions, norms and rope of 268 MB and more 3 to 14 % slower.
  __device__ void load_once(const Element* from) { bits = *reinterpret_cast<const Bits*>(from); }
  // L2 evict_last on Hopper: kept_load.cuh has the reason.
  __device__ void load_streamed(const Element* from) { bits = warpwatch::load_streamed(reinterpret_cast<const Bits*>(from)); }
  __device__ void load_streamed(const Element* from, bool there) {
    bits = warpwatch::load_streamed(reinterpret_cast<const Bits*>(from), there);
  }
  // ld.global.nc.L1::no_allocate, for kernels that only read, with many independent short jobs: sums of
  // 32768 rows of 8 KB take 69.1 us with it and 72.5 us with plain loads (H200). A single sum split into
  // parts is the reverse: 138 and 134 us for 537 MB.
  __device__ void load_nc_no_allocate(const Element* from) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(from));
  }
  __device__ void load_shared_by_many(const Element* from) { bits = __ldg(reinterpret_cast<const Bits*>(from)); }
  __device__ void zero() { bits = Bits{}; }
  // Forces the compiler to widen again: 16 packed bytes stay in registers instead of 32 bytes of floats.
  __device__ void reload_from_packed() { asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w)); }
  __device__ void store(Element* to) const { *reinterpret_cast<Bits*>(to) = bits; }
};

// Whether the address is aligned for 16-byte vectors. True for null, an absent operand.
inline bool on_piece(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace warpwatch
