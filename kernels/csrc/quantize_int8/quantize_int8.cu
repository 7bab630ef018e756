// Per-token quantization, one block per row: first the largest magnitude, then the integers. A thread handles 16
// values at a time, which become one 16-byte store, and keeps them in registers in between. A row of more than
// 16384 values is read again, from L1 or L2.
#include <cstdint>

#include "primitives/dependent_launch.cuh"
#include "primitives/element.cuh"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 16;

// Loads values [first, first + 16) of a row, zeros past its end. Aligned rows are read by 16-byte vectors.
template <typename Element, bool kAligned>
__device__ __forceinline__ void load_piece(const Element* row, int first, int k, float (&values)[kPiece]) {
  if (kAligned && first + kPiece <= k) {
    constexpr int kEach = 16 / sizeof(Element);
#pragma unroll
    for (int load = 0; load < kPiece / kEach; ++load) {
      const uint4 bits = __ldg(reinterpret_cast<const uint4*>(row + first) + load);
      const Element* elements = reinterpret_cast<const Element*>(&bits);
#pragma unroll
      for (int i = 0; i < kEach; ++i) values[load * kEach + i] = as_float(elements[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) values[i] = first + i < k ? as_float(row[first + i]) : 0.0f;
  }
}

// Magnitudes order as their bits do, with NaN above infinity, so NaN wins.
__device__ __forceinline__ uint32_t largest_of_block(uint32_t bits) {
  __shared__ uint32_t of_warps[kThreads / 32];
#if __CUDA_ARCH__ >= 800
  bits = __reduce_max_sync(0xffffffffu, bits);
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, distance));
#endif
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = bits;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) bits = max(bits, of_warps[warp]);
  return bits;
}

// Converts four values to bytes, the first in the lowest. __float2int_rn rounds ties to even and converts NaN to 0.
__device__ __forceinline__ uint32_t four_codes(const float* values, float inverse) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int steps = max(-127, min(127, __float2int_rn(values[i] * inverse)));
    word |= (static_cast<uint32_t>(steps) & 0xffu) << (8 * i);
  }
  return word;
}

// kPieces: groups of 16 values that a thread keeps; 0 for rows that are too long.
template <typename Element, bool kAligned, int kPieces>
__global__ void __launch_bounds__(kThreads) quantize_int8_rows(const QuantizeInt8Params p) {
  launch_dependents();
  const int64_t m = blockIdx.x;
  const Element* row = static_cast<const Element*>(p.x) + m * p.x_stride;
  const int pieces = p.padded_k / kPiece;
  float values[kPieces > 0 ? kPieces : 1][kPiece];
  uint32_t largest_bits = __float_as_uint(kLeastMagnitude);
  const auto update_largest = [&](const float(&piece)[kPiece]) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) largest_bits = max(largest_bits, __float_as_uint(fabsf(piece[i])));
  };
  if constexpr (kPieces > 0) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      load_piece<Element, kAligned>(row, (threadIdx.x + i * kThreads) * kPiece, p.k, values[i]);
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) update_largest(values[i]);
  } else {
    for (int piece = threadIdx.x; piece < pieces; piece += kThreads) {
      load_piece<Element, kAligned>(row, piece * kPiece, p.k, values[0]);
      update_largest(values[0]);
    }
  }
  for (int64_t i = m * kThreads + threadIdx.x; i < p.counter_count; i += int64_t{gridDim.x} * kThreads) p.counters[i] = 0;
  const float largest = __uint_as_float(largest_of_block(largest_bits));
  const float inverse = __fdiv_rn(127.0f, largest);
  if (threadIdx.x == 0) p.scales[m] = __fdiv_rn(largest, 127.0f);

  uint4* const out = reinterpret_cast<uint4*>(p.out + m * p.padded_k);
  const auto store = [&](int piece, const float(&of)[kPiece]) {
    out[piece] = {four_codes(of, inverse), four_codes(of + 4, inverse), four_codes(of + 8, inverse),
                  four_codes(of + 12, inverse)};
  };
  if constexpr (kPieces > 0) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = threadIdx.x + i * kThreads;
      if (piece < pieces) store(piece, values[i]);
    }
  } else {
    for (int piece = threadIdx.x; piece < pieces; piece += kThreads) {
      load_piece<Element, kAligned>(row, piece * kPiece, p.k, values[0]);
      store(piece, values[0]);
    }
  }
}

template <typename Element, bool kAligned>
void launch(const QuantizeInt8Params& p, cudaStream_t stream) {
  const int pieces = (p.padded_k / kPiece - 1) / kThreads + 1;
  if (pieces <= 1) {
    quantize_int8_rows<Element, kAligned, 1><<<p.m, kThreads, 0, stream>>>(p);
  } else if (pieces <= 4) {
    quantize_int8_rows<Element, kAligned, 4><<<p.m, kThreads, 0, stream>>>(p);
  } else {
    quantize_int8_rows<Element, kAligned, 0><<<p.m, kThreads, 0, stream>>>(p);
  }
}

template <typename Element>
cudaError_t launch(const QuantizeInt8Params& p, cudaStream_t stream) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && p.x_stride * static_cast<int64_t>(sizeof(Element)) % 16 == 0;
  if (aligned) {
    launch<Element, true>(p, stream);
  } else {
    launch<Element, false>(p, stream);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t quantize_int8_per_token_cuda(const QuantizeInt8Params& p, cudaStream_t stream) {
  const bool padded = p.padded_k >= p.k && p.padded_k % kInt8RowBytes == 0;
  if (p.m < 1 || p.k < 1 || !padded || reinterpret_cast<uintptr_t>(p.out) % 16 != 0) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
