// Conversion of int8 to fp16 or bf16, which is exact: both represent every int8 value.
#pragma once

#include <cstdint>

#include "primitives/mma.cuh"

namespace warpwatch {

// Converts four int8 values to two pairs, the lowest byte first.
template <typename Element>
__device__ __forceinline__ void widen_bytes(uint32_t word, uint32_t& first, uint32_t& second);

// fp16 has 10 mantissa bits. 1024 is 0x6400, so a byte in its lowest bits reads 1024 + byte. A byte b with its sign bit flipped
// is b + 128 unsigned, so subtracting 1152 gives b, exactly.
template <>
__device__ __forceinline__ void widen_bytes<__half>(uint32_t word, uint32_t& first, uint32_t& second) {
  const uint32_t shifted = word ^ 0x80808080u;
  const __half2 offset = __float2half2_rn(1152.0f);
  const uint32_t low = __byte_perm(shifted, 0x64646464u, 0x4140), high = __byte_perm(shifted, 0x64646464u, 0x4342);
  const __half2 a = __hsub2(*reinterpret_cast<const __half2*>(&low), offset);
  const __half2 b = __hsub2(*reinterpret_cast<const __half2*>(&high), offset);
  first = *reinterpret_cast<const uint32_t*>(&a);
  second = *reinterpret_cast<const uint32_t*>(&b);
}

// bf16 has 7 mantissa bits, too few for that; fp32 has 23, and 2^23 is 0x4b000000. The final rounding to bf16 is exact.
template <>
__device__ __forceinline__ void widen_bytes<__nv_bfloat16>(uint32_t word, uint32_t& first, uint32_t& second) {
  const uint32_t shifted = word ^ 0x80808080u;
  float values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[i] = __uint_as_float(__byte_perm(shifted, 0x4b000000u, 0x7440 + i)) - 8388736.0f;
  }
  first = pack<__nv_bfloat16>(values[0], values[1]);
  second = pack<__nv_bfloat16>(values[2], values[3]);
}

}  // namespace warpwatch
