// Elements as floats and back, for the kernels of the ladder.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace warpwatch {

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(__half x) { return __half2float(x); }
__device__ __forceinline__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ void narrow_to(float* to, float x) { *to = x; }
__device__ __forceinline__ void narrow_to(__half* to, float x) { *to = __float2half_rn(x); }
__device__ __forceinline__ void narrow_to(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }

}  // namespace warpwatch
