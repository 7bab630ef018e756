// How a lane copies and unpacks words of quantized codes.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "primitives/cp_async.cuh"
#include "primitives/ldmatrix.cuh"

namespace warpwatch {

// Copies a lane's 4, 8 or 16 bytes from global to shared memory, or zeros unless `live`. Async: by cp.async, which the caller
// commits and waits for; else through registers (sm_75).
template <bool Async>
struct PieceCopy {
  template <int Bytes>
  static __device__ __forceinline__ void run(uint32_t address, const void* from, bool live) {
    if constexpr (Async) {
      cp_async_once<Bytes>(address, from, live);
      return;
    }
    void* const to = __cvta_shared_to_generic(address);
    if constexpr (Bytes == 16) {
      *reinterpret_cast<uint4*>(to) = live ? __ldg(static_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
    } else if constexpr (Bytes == 8) {
      *reinterpret_cast<uint2*>(to) = live ? __ldg(static_cast<const uint2*>(from)) : make_uint2(0, 0);
    } else {
      *reinterpret_cast<uint32_t*>(to) = live ? __ldg(static_cast<const uint32_t*>(from)) : 0u;
    }
  }
};

// Loads 1, 2 or 4 words at once.
template <int Words>
__device__ __forceinline__ void load_words(uint32_t (&words)[Words], const void* from) {
  static_assert(Words == 1 || Words == 2 || Words == 4, "one load");
  if constexpr (Words == 4) {
    const uint4 x = *static_cast<const uint4*>(from);
    words[0] = x.x;
    words[1] = x.y;
    words[2] = x.z;
    words[3] = x.w;
  } else if constexpr (Words == 2) {
    const uint2 x = *static_cast<const uint2*>(from);
    words[0] = x.x;
    words[1] = x.y;
  } else {
    words[0] = *static_cast<const uint32_t*>(from);
  }
}

// (word & mask) ^ bits as one LOP3 with truth table 0x6a. From C++ the compiler emits two, since
// an instruction encodes only one constant.
template <uint32_t kMask, uint32_t kBits>
__device__ __forceinline__ uint32_t masked_xor(uint32_t word) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;\n" : "=r"(result) : "r"(word), "n"(kMask), "r"(kBits));
  return result;
}

__device__ __forceinline__ __half2 as_half2(uint32_t bits) { return *reinterpret_cast<const __half2*>(&bits); }
__device__ __forceinline__ uint32_t as_word(__half2 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }

// The lower halves of two words, the first word's in the low half; upper_halves likewise.
__device__ __forceinline__ uint32_t lower_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ __forceinline__ uint32_t upper_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x7632);
}

// Bytes 0 and 2 of a word, signed, as two halves, exactly: 0x6400 | u is 1024 + u, with u = byte + 128.
constexpr float kByteBias = 1152.0f;
__device__ __forceinline__ uint32_t biased_even_bytes(uint32_t word) { return masked_xor<0x00ff00ff, 0x64806480>(word); }
__device__ __forceinline__ uint32_t even_bytes_as_halves(uint32_t word) {
  return as_word(__hsub2(as_half2(biased_even_bytes(word)), __half2half2(__ushort_as_half(0x6480))));
}

// Nibbles 0 and 4 of a word, 0 .. 15, as two halves, exactly: 0x6400 | u is 1024 + u. Nibbles 1
// and 5, as 16 u: 0x5400 | 16 u is 64 + u.
constexpr uint32_t kMinusFirstBias = 0xe400e400;   // -1024, twice
constexpr uint32_t kMinusSecondBias = 0xd400d400;  // -64, twice
__device__ __forceinline__ uint32_t biased_first_nibbles(uint32_t word) {
  return masked_xor<0x000f000f, 0x64006400>(word);
}
__device__ __forceinline__ uint32_t biased_second_nibbles(uint32_t word) {
  return masked_xor<0x00f000f0, 0x54005400>(word);
}
// The nibbles with that bias subtracted.
__device__ __forceinline__ uint32_t first_nibbles(uint32_t word) {
  return as_word(__hadd2(as_half2(biased_first_nibbles(word)), as_half2(kMinusFirstBias)));
}
__device__ __forceinline__ uint32_t second_nibbles(uint32_t word) {
  return as_word(__hadd2(as_half2(biased_second_nibbles(word)), as_half2(kMinusSecondBias)));
}

}  // namespace warpwatch
