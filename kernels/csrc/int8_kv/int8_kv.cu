// int8_kv_append on any GPU: 8, 16 or 32 lanes per row with 8 elements each, which stay in registers between the row's maximum
// and its codes. A prefill is bound by instructions as much as by memory, so a lane then handles several rows.
#include <cuda_runtime.h>

#include "int8_kv/int8_kv.h"
#include "primitives/divisor.cuh"
#include "primitives/piece.cuh"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {
namespace {

constexpr int kThreads = 128;
constexpr int kEach = 8;  // elements per chunk; a lane owns whole chunks
constexpr int kMostHeadDim = 32 * kEach;

// A lane's share: chunks per row, and rows.
struct Share {
  int chunks, rows;
};
// Evidence: one H100, prefill of 8 sequences, 8 heads, 4096 tokens, head_dim 128, us (the bound is DRAM bandwidth):
//   {1, 1} 80.6   {1, 4} 73.7   {2, 2} and {2, 4} 74.7
constexpr Share kManyShare = {1, 4};
constexpr Share kFewShare = {1, 1};

// The kernel's parameters. A lane group handles up to kRows new tokens of one head; groups are numbered along tokens first,
// then heads, then batch. blockIdx.y = 0 handles keys, 1 values, both with the strides of the keys. With 32-bit strides, codes
// are 8-byte aligned and the parameters take 128 bytes: a launch with 240 bytes of parameters takes 0.2 us longer than one with
// 112, even if the kernel reads only the first ones (H100, cold L2).
template <class Stride>
struct Rows {
  Divisor tokens, heads;  // tokens: lane groups per head
  uint32_t groups;
  int seq, capacity, head_dim;
  const int32_t* lengths;
  const void* rows[2];  // k, v
  int8_t* codes[2];
  float* scales[2];
  Stride row_strides[3], code_strides[3], scale_strides[2];  // batch, head and, except for scales, row
};
static_assert(sizeof(Rows<int32_t>) <= 128);

// Converts four values to bytes, the first in the lowest. Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and
// leaves it in the lowest bits; |product| <= 127, since `inverse` is 127 over the largest magnitude.
__device__ __forceinline__ uint32_t four_codes(const float* values, float inverse) {
  uint32_t bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(__fadd_rn(__fmul_rn(values[i], inverse), 12582912.0f));
  return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
}

// The largest magnitude, as bits in Element's format: they order as the magnitudes do, with NaN above infinity, so NaN wins.
// Two 16-bit elements are compared at a time, and finally with each other.
template <typename Element>
__device__ __forceinline__ uint32_t larger_of(uint32_t largest, const uint4& bits) {
  constexpr bool kTwo = sizeof(Element) == 2;
  constexpr uint32_t kMagnitude = kTwo ? 0x7fff7fffu : 0x7fffffffu;
  for (const uint32_t word : {bits.x, bits.y, bits.z, bits.w}) {
    largest = kTwo ? __vmaxu2(largest, word & kMagnitude) : max(largest, word & kMagnitude);
  }
  return largest;
}

template <typename Element>
__device__ __forceinline__ uint32_t of_pair(uint32_t largest) {
  return sizeof(Element) == 2 ? max(largest & 0xffffu, largest >> 16) : largest;
}

__device__ __forceinline__ float with_bits(__half, uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ __forceinline__ float with_bits(__nv_bfloat16, uint32_t bits) { return __uint_as_float(bits << 16); }
__device__ __forceinline__ float with_bits(float, uint32_t bits) { return __uint_as_float(bits); }

// Lanes of a warp may own different rows but shuffle together, so none may exit early.
template <typename Element, int kLanes, int kChunks, int kRows, class Stride>
__global__ void __launch_bounds__(kThreads) int8_kv_append_rows(const Rows<Stride> p) {
  using P = Piece<Element>;
  constexpr int kPieces = kEach / P::kElements;  // per chunk
  static_assert(kRows <= kLanes, "a lane for each scale");
  const uint32_t group = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes;
  const uint32_t clamped = min(group, p.groups - 1);
  const uint32_t head_batch = p.tokens.quotient(clamped);
  const int token = static_cast<int>(clamped - head_batch * p.tokens.divisor()) * kRows;
  const uint32_t batch = p.heads.quotient(head_batch);
  const uint32_t head = head_batch - batch * p.heads.divisor();
  const int64_t position = static_cast<int64_t>(p.lengths[batch]) - p.seq + token;  // of the first row
  const int rows = group < p.groups ? min(kRows, p.seq - token) : 0;
  const auto at_head = [&](const auto& strides) {
    return static_cast<int64_t>(batch) * strides[0] + static_cast<int64_t>(head) * strides[1];
  };

  const int lane = threadIdx.x % kLanes;
  const auto column = [&](int chunk) { return kEach * (lane + chunk * kLanes); };
  const bool is_value = blockIdx.y != 0;  // selects with ?:; an index would move the parameters to local memory
  const Element* x = static_cast<const Element*>(is_value ? p.rows[1] : p.rows[0]) + at_head(p.row_strides) +
                     static_cast<int64_t>(token) * p.row_strides[2];
  // Loads all rows, also those outside the cache, so that one wait covers them and the position.
  P held[kRows][kChunks][kPieces];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        held[r][c][i].zero();
        if (r < rows && column(c) < p.head_dim) held[r][c][i].load_once(x + column(c) + i * P::kElements);
      }
    }
    x += p.row_strides[2];
  }

  uint32_t largest_bits[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    largest_bits[r] = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) largest_bits[r] = larger_of<Element>(largest_bits[r], held[r][c][i].bits);
    }
    largest_bits[r] = of_pair<Element>(largest_bits[r]);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      largest_bits[r] = max(largest_bits[r], __shfl_xor_sync(0xffffffffu, largest_bits[r], distance));
    }
  }
  // Lane r divides for row r and stores its scale, so the scales are stored coalesced.
  uint32_t own_bits = largest_bits[0];
#pragma unroll
  for (int r = 1; r < kRows; ++r) own_bits = lane == r ? largest_bits[r] : own_bits;
  own_bits = max(__float_as_uint(with_bits(Element(), own_bits)), __float_as_uint(kLeastMagnitude));
  const float own_largest = __uint_as_float(own_bits);
  // A row with NaN or infinity gets codes 0: the code of NaN, and of finite * 127 / infinity.
  const float own_inverse = own_bits < 0x7f800000u ? __fdiv_rn(127.0f, own_largest) : 0.0f;

  // The rows that lie inside the cache.
  const int begin = static_cast<int>(min(max(-position, int64_t{0}), int64_t{kRows}));
  const int end = static_cast<int>(min(max(p.capacity - position, int64_t{0}), static_cast<int64_t>(rows)));
  int8_t* codes = (is_value ? p.codes[1] : p.codes[0]) + at_head(p.code_strides) + position * p.code_strides[2];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float inverse = __shfl_sync(0xffffffffu, own_inverse, r, kLanes);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      float values[kEach];
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
#pragma unroll
        for (int j = 0; j < P::kPairs; ++j) {
          const float2 pair = widen(held[r][c][i].pairs[j]);
          values[i * P::kElements + 2 * j] = pair.x;
          values[i * P::kElements + 2 * j + 1] = pair.y;
        }
      }
      uint2 eight = {four_codes(values, inverse), four_codes(values + 4, inverse)};
      if (inverse == 0.0f) eight = {0, 0};
      if (r < begin || r >= end || column(c) >= p.head_dim) continue;
      if constexpr (sizeof(Stride) == 4) {
        *reinterpret_cast<uint2*>(codes + column(c)) = eight;
      } else {
        reinterpret_cast<uint32_t*>(codes + column(c))[0] = eight.x;
        reinterpret_cast<uint32_t*>(codes + column(c))[1] = eight.y;
      }
    }
    codes += p.code_strides[2];
  }
  if (lane >= begin && lane < end) {
    float* const scales = (is_value ? p.scales[1] : p.scales[0]) + at_head(p.scale_strides);
    scales[position + lane] = __fdiv_rn(own_largest, 127.0f);
  }
}

// Which tensors a launch handles: keys, values, or both if their strides are equal.
struct Tensors {
  int first, count;
};

template <typename Element, int kLanes, Share kShare, class Stride>
void launch_share(const Int8KvParams& p, Tensors tensors, cudaStream_t stream) {
  constexpr int kGroups = kThreads / kLanes;
  const auto [first, count] = tensors;
  const int64_t of_head = (p.seq - 1) / kShare.rows + 1;
  Rows<Stride> rows;
  rows.tokens = Divisor(static_cast<uint32_t>(of_head));
  rows.heads = Divisor(static_cast<uint32_t>(p.heads));
  rows.groups = static_cast<uint32_t>(of_head * p.heads * p.batch);
  rows.seq = static_cast<int>(p.seq);
  rows.capacity = p.capacity;
  rows.head_dim = p.head_dim;
  rows.lengths = p.lengths;
  for (int i = 0; i < 2; ++i) {
    const int tensor = i < count ? first + i : first;
    rows.rows[i] = p.rows[tensor];
    rows.codes[i] = p.codes[tensor];
    rows.scales[i] = p.scales[tensor];
  }
  for (int i = 0; i < 3; ++i) {
    rows.row_strides[i] = static_cast<Stride>(p.row_strides[first][i]);
    rows.code_strides[i] = static_cast<Stride>(p.code_strides[first][i]);
    if (i < 2) rows.scale_strides[i] = static_cast<Stride>(p.scale_strides[first][i]);
  }
  const dim3 blocks((rows.groups - 1) / kGroups + 1, count);
  int8_kv_append_rows<Element, kLanes, kShare.chunks, kShare.rows, Stride><<<blocks, kThreads, 0, stream>>>(rows);
}

// Whether strides fit 32 bits and each chunk's codes are 8-byte aligned.
bool fits_short(const Int8KvParams& p) {
  const auto fits = [](int64_t stride) { return stride >= INT32_MIN && stride <= INT32_MAX; };
  for (int tensor = 0; tensor < 2; ++tensor) {
    if (reinterpret_cast<uintptr_t>(p.codes[tensor]) % 8 != 0) return false;
    for (int i = 0; i < 3; ++i) {
      if (!fits(p.row_strides[tensor][i]) || !fits(p.code_strides[tensor][i])) return false;
      if (p.code_strides[tensor][i] % 8 != 0) return false;
    }
    if (!fits(p.scale_strides[tensor][0]) || !fits(p.scale_strides[tensor][1])) return false;
  }
  return true;
}

bool same_strides(const Int8KvParams& p) {
  for (int i = 0; i < 3; ++i) {
    if (p.row_strides[0][i] != p.row_strides[1][i] || p.code_strides[0][i] != p.code_strides[1][i]) return false;
    if (i < 2 && p.scale_strides[0][i] != p.scale_strides[1][i]) return false;
  }
  return true;
}

// kLanes: one lane per chunk.
template <typename Element, int kLanes>
void launch(const Int8KvParams& p, cudaStream_t stream) {
  // Several rows per lane if that still fills a large GPU (132 SMs of 2048 threads).
  constexpr int64_t kEnough = int64_t{kManyShare.chunks} * kManyShare.rows * 132 * 2048;
  const bool many = p.seq >= kManyShare.rows && 2 * p.batch * p.heads * p.seq * kLanes >= kEnough;
  const auto launch_tensors = !fits_short(p) ? launch_share<Element, kLanes, kFewShare, int64_t>
                              : many         ? launch_share<Element, kLanes / kManyShare.chunks, kManyShare, int32_t>
                                             : launch_share<Element, kLanes, kFewShare, int32_t>;
  if (same_strides(p)) {
    launch_tensors(p, {0, 2}, stream);
  } else {
    launch_tensors(p, {0, 1}, stream);
    launch_tensors(p, {1, 1}, stream);
  }
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
