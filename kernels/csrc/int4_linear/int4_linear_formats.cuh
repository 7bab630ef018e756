// Maps the parameters to the kernels' template arguments: element type, group size, zero points.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "int4_linear/int4_linear.h"

namespace warpwatch {

template <typename Element>
constexpr Dtype kInt4Dtype = Dtype::kFloat16;
template <>
inline constexpr Dtype kInt4Dtype<__nv_bfloat16> = Dtype::kBFloat16;

// Calls Launch::run<Element, kGroup, kZeroPoints>(p, stream) for the type of Elements that p.dtype names.
template <typename Launch, typename Element, typename... Elements>
cudaError_t launch_int4_format(const Int4LinearParams& p, cudaStream_t stream) {
  if (p.dtype != kInt4Dtype<Element>) {
    if constexpr (sizeof...(Elements) > 0) return launch_int4_format<Launch, Elements...>(p, stream);
    return cudaErrorInvalidValue;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && p.x_stride % 8 == 0 &&
                       reinterpret_cast<uintptr_t>(p.packed_weight) % 16 == 0;
  if (p.group_size != 64 && p.group_size != 128) return cudaErrorInvalidValue;
  if (!aligned || p.m < 1 || p.n < 1 || p.k < 1 || p.k % p.group_size != 0) return cudaErrorInvalidValue;
  const bool zeros = p.zero_points != nullptr;
  if (p.group_size == 128) {
    return zeros ? Launch::template run<Element, 128, true>(p, stream)
                 : Launch::template run<Element, 128, false>(p, stream);
  }
  return zeros ? Launch::template run<Element, 64, true>(p, stream)
               : Launch::template run<Element, 64, false>(p, stream);
}

}  // namespace warpwatch
