// int8_kv_append on any GPU: a warp a row, a lane 8 of its elements at a time, held in registers between the row's maximum
// and its codes.
//
// Rows are numbered (of keys or values, sequence, head, new token).
#include <cuda_runtime.h>

#include <climits>

#include "int8_kv/int8_kv.h"
#include "primitives/piece.cuh"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {
namespace {

constexpr int kWarps = 4;
constexpr int kEach = 8;                       // elements of a lane at a time
constexpr int kMostHeadDim = 32 * kEach;

// Four values as bytes, the first in the lowest. __float2int_rn rounds ties to even and makes 0 of a NaN.
__device__ __forceinline__ uint32_t four_codes(const float* values, float inverse) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int steps = max(-127, min(127, __float2int_rn(values[i] * inverse)));
    word |= (static_cast<uint32_t>(steps) & 0xffu) << (8 * i);
  }
  return word;
}

template <typename Element>
__global__ void __launch_bounds__(32 * kWarps) int8_kv_append_rows(const Int8KvParams p) {
  int64_t rest = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int64_t per_tensor = p.batch * p.heads * p.seq;
  if (rest >= 2 * per_tensor) return;
  const int tensor = rest >= per_tensor;
  rest -= tensor * per_tensor;
  const int64_t row = rest % p.seq;
  rest /= p.seq;
  const int64_t head = rest % p.heads;
  const int64_t batch = rest / p.heads;
  const int64_t position = p.lengths[batch] - p.seq + row;
  if (position < 0 || position >= p.capacity) return;

  const int first = kEach * (threadIdx.x % 32);
  const bool live = first < p.head_dim;
  const int64_t* from = p.row_strides[tensor];
  const Element* x = static_cast<const Element*>(p.rows[tensor]) + batch * from[0] + head * from[1] + row * from[2];
  constexpr int kPieces = kEach / Piece<Element>::kElements;
  float values[kEach];
  // The bits of magnitudes are ordered as the magnitudes are, and those of a NaN above infinity's: it wins.
  uint32_t largest_bits = __float_as_uint(kLeastMagnitude);
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    Piece<Element> piece;
    piece.zero();
    if (live) piece.load_once(x + first + i * Piece<Element>::kElements);
#pragma unroll
    for (int j = 0; j < Piece<Element>::kPairs; ++j) {
      const float2 pair = widen(piece.pairs[j]);
      values[i * Piece<Element>::kElements + 2 * j] = pair.x;
      values[i * Piece<Element>::kElements + 2 * j + 1] = pair.y;
      largest_bits = max(largest_bits, max(__float_as_uint(fabsf(pair.x)), __float_as_uint(fabsf(pair.y))));
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    largest_bits = max(largest_bits, __shfl_xor_sync(0xffffffffu, largest_bits, distance));
  }
  const float largest = __uint_as_float(largest_bits);
  const float inverse = __fdiv_rn(127.0f, largest);
  const int64_t* to = p.code_strides[tensor];
  if (live) {
    uint32_t* codes =
        reinterpret_cast<uint32_t*>(p.codes[tensor] + batch * to[0] + head * to[1] + position * to[2] + first);
    codes[0] = four_codes(values, inverse);
    codes[1] = four_codes(values + 4, inverse);
  }
  const int64_t* scales = p.scale_strides[tensor];
  if (first == 0) p.scales[tensor][batch * scales[0] + head * scales[1] + position] = __fdiv_rn(largest, 127.0f);
}

}  // namespace

cudaError_t int8_kv_append_cuda(const Int8KvParams& p, cudaStream_t stream) {
  const int64_t blocks = (2 * p.batch * p.heads * p.seq + kWarps - 1) / kWarps;
  if (p.head_dim % kEach != 0 || p.head_dim > kMostHeadDim || blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  switch (p.dtype) {
    case Dtype::kFloat16: int8_kv_append_rows<__half><<<static_cast<int>(blocks), 32 * kWarps, 0, stream>>>(p); break;
    case Dtype::kBFloat16:
      int8_kv_append_rows<__nv_bfloat16><<<static_cast<int>(blocks), 32 * kWarps, 0, stream>>>(p);
      break;
    case Dtype::kFloat32: int8_kv_append_rows<float><<<static_cast<int>(blocks), 32 * kWarps, 0, stream>>>(p); break;
  }
  return cudaGetLastError();
}

}  // namespace warpwatch
