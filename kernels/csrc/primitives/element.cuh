// Conversion of tensor elements to fp32 and back, rounded to nearest even. All architectures convert bf16; only the tensor
// cores' bf16 needs sm_80.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace warpwatch {

__device__ __forceinline__ float as_float(float value) { return value; }
__device__ __forceinline__ float as_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename Element>
__device__ __forceinline__ Element rounded(float value);
template <>
__device__ __forceinline__ float rounded<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half rounded<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 rounded<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <typename Element>
__device__ __forceinline__ void from_float(float value, Element& to) {
  to = rounded<Element>(value);
}

// Stores two neighbours at once; `to` is aligned to two elements.
__device__ __forceinline__ void store_pair(float* to, float first, float second) {
  *reinterpret_cast<float2*>(to) = {first, second};
}
__device__ __forceinline__ void store_pair(__half* to, float first, float second) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(first, second);
}
__device__ __forceinline__ void store_pair(__nv_bfloat16* to, float first, float second) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(first, second);
}

}  // namespace warpwatch
