// Dequantizes the 4-bit weight to a 16-bit matrix for cuBLAS. A warp processes 512 bytes, 16 outputs times 64 of k (layout:
// int4_linear.h). Thread 4 g + s takes word s of lanes 4 g to 4 g + 3, i.e. 16 of k of outputs g and g + 8, so each of eight
// rows is stored as 128 contiguous bytes.
#include <cstdint>

#include "int4_linear/int4_linear.h"
#include "primitives/element.cuh"

namespace warpwatch {
namespace {

constexpr int kThreads = 256;
constexpr int kTiles = 2;  // per warp, both in flight at once

template <typename Element>
__global__ void __launch_bounds__(kThreads) int4_linear_dequantize(const Int4LinearParams p) {
  const int row_tiles = p.k / 64, groups = p.k / p.group_size;
  const int64_t tiles = static_cast<int64_t>(row_tiles) * ((p.n - 1) / 16 + 1);
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32) * kTiles;
  const int g = threadIdx.x % 32 / 4, s = threadIdx.x % 4;
  uint32_t words[kTiles][4];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const uint8_t* const from = p.packed_weight + (first + i) * 512 + 64 * g + 4 * s;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      if (first + i < tiles) words[i][t] = __ldg(reinterpret_cast<const uint32_t*>(from + 16 * t));
    }
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    if (first + i >= tiles) return;
    const int64_t n16_tile = (first + i) / row_tiles;
    const int k = static_cast<int>((first + i) % row_tiles) * 64 + 16 * s;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int64_t n = n16_tile * 16 + 8 * v + g;
      if (n >= p.n) continue;
      const int64_t group = n * groups + k / p.group_size;
      const float scale = as_float(__ldg(static_cast<const Element*>(p.scales) + group));
      const int zero = p.zero_points == nullptr ? 8 : p.zero_points[group];
      __align__(16) Element values[16];
#pragma unroll
      for (int at = 0; at < 16; ++at) {  // 8 u + 2 t + e
        const int nibble = static_cast<int>(words[i][at / 2 % 4] >> (4 * (v + at / 8 * 2 + at % 2 * 4)) & 0xf);
        values[at] = rounded<Element>(static_cast<float>(nibble - zero) * scale);
      }
      uint4* const to = reinterpret_cast<uint4*>(static_cast<Element*>(p.out) + n * p.k + k);
      to[0] = reinterpret_cast<const uint4*>(values)[0];
      to[1] = reinterpret_cast<const uint4*>(values)[1];
    }
  }
}

template <typename Element>
cudaError_t launch(const Int4LinearParams& p, cudaStream_t stream) {
  const int64_t tiles = static_cast<int64_t>(p.k / 64) * ((p.n - 1) / 16 + 1);
  const int64_t blocks = (tiles - 1) / (kThreads / 32 * kTiles) + 1;
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
