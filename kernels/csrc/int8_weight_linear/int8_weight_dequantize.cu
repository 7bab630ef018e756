// Dequantizes the 8-bit weight to a 16-bit matrix for cuBLAS: 16 values per thread, one load and two stores of 16 bytes.
#include <cstdint>

#include "int8_weight_linear/int8_weight_linear.h"
#include "primitives/element.cuh"

namespace warpwatch {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 16;

template <typename Element>
__global__ void __launch_bounds__(kThreads) int8_weight_dequantize(const Int8WeightLinearParams p) {
  const int64_t pieces = p.padded_k / kPiece;  // per row
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= pieces * p.n) return;
  const int64_t n = piece / pieces;
  const int k = static_cast<int>(piece % pieces) * kPiece;
  const uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(p.weight + n * p.padded_k + k));
  const int8_t* bytes = reinterpret_cast<const int8_t*>(&loaded);
  const float scale = __ldg(p.weight_scales + n);
  Element* to = static_cast<Element*>(p.out) + n * p.k + k;
  if (p.k % 8 == 0 && k + kPiece <= p.k) {  // then rows of out are 16-byte aligned
    __align__(16) Element values[kPiece];
#pragma unroll
    for (int i = 0; i < kPiece; ++i) values[i] = rounded<Element>(static_cast<float>(bytes[i]) * scale);
    reinterpret_cast<uint4*>(to)[0] = reinterpret_cast<const uint4*>(values)[0];
    reinterpret_cast<uint4*>(to)[1] = reinterpret_cast<const uint4*>(values)[1];
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (k + i < p.k) to[i] = rounded<Element>(static_cast<float>(bytes[i]) * scale);
    }
  }
}

template <typename Element>
cudaError_t launch(const Int8WeightLinearParams& p, cudaStream_t stream) {
  const int64_t blocks = (static_cast<int64_t>(p.padded_k) / kPiece * p.n - 1) / kThreads + 1;
  if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
  int8_weight_dequantize<Element><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t int8_weight_dequantize_cuda(const Int8WeightLinearParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
