// The 4-bit weight as a matrix of 16 bits, for cuBLAS: a word of eight values is one load of 4 bytes and one store of
// 16, both side by side in a warp.
#include <cstdint>

#include "int4_linear/int4_linear.h"
#include "primitives/element.cuh"

namespace warpwatch {
namespace {

constexpr int kThreads = 256;
constexpr int kWords = 4;  // of a thread, all in flight at once

template <typename Element>
__global__ void __launch_bounds__(kThreads) int4_linear_dequantize(const Int4LinearParams p) {
  const int row_words = p.k / 8, groups = p.k / p.group_size;
  const int64_t words = static_cast<int64_t>(row_words) * p.n;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kWords) + threadIdx.x;
  uint32_t loaded[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const int64_t at = first + i * kThreads;
    if (at < words) loaded[i] = __ldcs(reinterpret_cast<const uint32_t*>(p.packed_weight) + at);
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= words) return;
    const int64_t n = at / row_words;
    const int64_t group = n * groups + static_cast<int>(at % row_words) * 8 / p.group_size;
    const float scale = as_float(__ldg(static_cast<const Element*>(p.scales) + group));
    const int zero = p.zero_points == nullptr ? 8 : p.zero_points[group];
    __align__(16) Element values[8];
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      const int nibble = static_cast<int>(loaded[i] >> (4 * v) & 0xf);
      values[v] = rounded<Element>(static_cast<float>(nibble - zero) * scale);
    }
    static_cast<uint4*>(p.out)[at] = *reinterpret_cast<const uint4*>(values);
  }
}

template <typename Element>
cudaError_t launch(const Int4LinearParams& p, cudaStream_t stream) {
  const int64_t words = static_cast<int64_t>(p.k / 8) * p.n;
  const int64_t blocks = (words - 1) / (kThreads * kWords) + 1;
  if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
  int4_linear_dequantize<Element><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t int4_linear_dequantize_cuda(const Int4LinearParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
