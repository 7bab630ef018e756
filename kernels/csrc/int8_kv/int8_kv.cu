// int8_kv_append on any GPU: 8, 16 or 32 lanes a row, each with 8 of its elements, held in registers between the row's
// maximum and its codes.
//
// Rows are numbered (of keys or values, sequence, head, new token).
#include <cuda_runtime.h>

#include "int8_kv/int8_kv.h"
#include "primitives/divisor.cuh"
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

// Lanes of a warp may have different rows, and exchange maxima: none of them leaves before the others.
template <typename Element, int kLanes>
__global__ void __launch_bounds__(32 * kWarps)
    int8_kv_append_rows(const Int8KvParams p, const Divisor seq, const Divisor heads) {
  constexpr int kRows = 32 * kWarps / kLanes;
  const uint32_t per_tensor = static_cast<uint32_t>(p.batch * p.heads * p.seq);
  const uint32_t place = blockIdx.x * kRows + threadIdx.x / kLanes;
  const bool exists = place < 2 * per_tensor;
  const int tensor = exists && place >= per_tensor;
  const uint32_t of_tensor = exists ? place - tensor * per_tensor : 0;
  const uint32_t of_heads = seq.quotient(of_tensor);
  const int64_t row = of_tensor - of_heads * static_cast<uint32_t>(p.seq);
  const int64_t batch = heads.quotient(of_heads);
  const int64_t head = of_heads - batch * p.heads;
  const int64_t position = p.lengths[batch] - p.seq + row;

  const int first = kEach * (threadIdx.x % kLanes);
  const bool held = exists && position >= 0 && position < p.capacity;
  const bool live = held && first < p.head_dim;
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
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
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
  if (held && first == 0) p.scales[tensor][batch * scales[0] + head * scales[1] + position] = __fdiv_rn(largest, 127.0f);
}

template <typename Element, int kLanes>
void launch(const Int8KvParams& p, cudaStream_t stream) {
  constexpr int kRows = 32 * kWarps / kLanes;
  const int blocks = static_cast<int>((2 * p.batch * p.heads * p.seq + kRows - 1) / kRows);
  const Divisor seq(static_cast<uint32_t>(p.seq));
  const Divisor heads(static_cast<uint32_t>(p.heads));
  int8_kv_append_rows<Element, kLanes><<<blocks, 32 * kWarps, 0, stream>>>(p, seq, heads);
}

template <typename Element>
cudaError_t launch_for_head_dim(const Int8KvParams& p, cudaStream_t stream) {
  if (p.head_dim <= 8 * kEach) {
    launch<Element, 8>(p, stream);
  } else if (p.head_dim <= 16 * kEach) {
    launch<Element, 16>(p, stream);
  } else {
    launch<Element, 32>(p, stream);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t int8_kv_append_cuda(const Int8KvParams& p, cudaStream_t stream) {
  const int64_t rows = p.batch * p.heads * p.seq;
  if (p.head_dim % kEach != 0 || p.head_dim > kMostHeadDim || rows > kInt8KvMostRows) return cudaErrorInvalidValue;
  if (rows == 0) return cudaSuccess;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_for_head_dim<__half>(p, stream);
    case Dtype::kBFloat16: return launch_for_head_dim<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch_for_head_dim<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
