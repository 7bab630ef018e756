// int4_kv_append on any GPU: a block takes 32 positions of the keys or values of one head, a group.
//
// Blocks are numbered (of keys or values, sequence, head, group from the first that the new tokens reach). Only the first
// group can hold tokens of before, from the window, and only the last can stay incomplete and go to the window: the block of
// the first group does that too, after it has read the window.
#include <cuda_runtime.h>

#include <climits>

#include "int4_kv/int4_kv.h"
#include "primitives/element.cuh"

namespace warpwatch {
namespace {

constexpr int kThreads = 128;
constexpr int kMostHeadDim = 256;

// The grid of 32 numbers that lie `stride` apart in shared memory.
struct Grid {
  __half scale, zero;
  float offset, inverse;

  __device__ __forceinline__ Grid(const float* x, int stride) {
    float least = x[0], most = x[0];
    bool not_a_number = false;
#pragma unroll 8
    for (int i = 0; i < kInt4Group; ++i) {
      const float value = x[i * stride];
      least = fminf(least, value);
      most = fmaxf(most, value);
      not_a_number |= value != value;
    }
    least = within_half(least);
    most = within_half(most);
    zero = __float2half_rn(not_a_number ? __int_as_float(0x7fc00000) : least);
    const float exact = __fdiv_rn(__fsub_rn(most, least), 15.0f);
    scale = __float2half_rn(exact);
    // Rounded up, the scale may take the largest code beyond fp16.
    if (__fadd_rn(__fmul_rn(15.0f, __half2float(scale)), least) > kLargestHalf) scale = __float2half_rd(exact);
    offset = __half2float(zero);
    const float step = __half2float(scale);
    inverse = step > 0.0f ? __frcp_rn(step) : 0.0f;
  }
  // __float2int_rn rounds ties to even and makes 0 of a NaN.
  __device__ __forceinline__ uint32_t code(float x) const {
    return static_cast<uint32_t>(max(0, min(15, __float2int_rn(__fmul_rn(__fsub_rn(x, offset), inverse)))));
  }
};

// Rows of head_dim numbers, one bank further each, so that neither rows nor columns meet in one.
constexpr int row_stride(int head_dim) { return head_dim + 1; }

__device__ __forceinline__ void quantize_keys(const float* x, int head_dim, uint8_t* codes, __half* scales) {
  for (int pair = threadIdx.x; pair < head_dim / 2; pair += kThreads) {
    const Grid low(x + 2 * pair, row_stride(head_dim));
    const Grid high(x + 2 * pair + 1, row_stride(head_dim));
    scales[2 * pair] = low.scale;
    scales[2 * pair + 1] = high.scale;
    scales[head_dim + 2 * pair] = low.zero;
    scales[head_dim + 2 * pair + 1] = high.zero;
    for (int i = 0; i < kInt4Group; ++i) {
      const float* at = x + i * row_stride(head_dim) + 2 * pair;
      codes[i * (head_dim / 2) + pair] = static_cast<uint8_t>(low.code(at[0]) | high.code(at[1]) << 4);
    }
  }
}

__device__ __forceinline__ void quantize_values(const float* x, int head_dim, uint8_t* codes, __half* scales) {
  const int groups = head_dim / kInt4Group;
  for (int item = threadIdx.x; item < kInt4Group * groups; item += kThreads) {
    const float* of_group = x + item % kInt4Group * row_stride(head_dim) + item / kInt4Group * kInt4Group;
    const Grid grid(of_group, 1);
    const int at = item % kInt4Group * groups + item / kInt4Group;  // (token, group of channels)
    scales[2 * at] = grid.scale;
    scales[2 * at + 1] = grid.zero;
    uint8_t* bytes = codes + at * (kInt4Group / 2);
    for (int i = 0; i < kInt4Group / 2; ++i) {
      bytes[i] = static_cast<uint8_t>(grid.code(of_group[2 * i]) | grid.code(of_group[2 * i + 1]) << 4);
    }
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) int4_kv_append_groups(const Int4KvParams p, int groups) {
  __shared__ float x[kInt4Group * row_stride(kMostHeadDim)];  // (32, head_dim), 33 KB
  int64_t rest = blockIdx.x;
  const int which = static_cast<int>(rest % groups);
  rest /= groups;
  const int64_t head = rest % p.heads;
  rest /= p.heads;
  const int64_t batch = rest % p.batch;
  const int tensor = static_cast<int>(rest / p.batch);

  const int64_t first_new = p.lengths[batch] - p.seq;  // position of row 0
  const int64_t begin = max(first_new, int64_t{0});
  const int64_t end = min(static_cast<int64_t>(p.lengths[batch]), static_cast<int64_t>(p.capacity));
  const int64_t first = (begin / kInt4Group + which) * kInt4Group;
  if (begin >= end || first >= end) return;
  const int64_t index = batch * p.heads + head;
  const int64_t* strides = p.row_strides[tensor];
  const Element* rows = static_cast<const Element*>(p.rows[tensor]) + batch * strides[0] + head * strides[1];
  Element* window = static_cast<Element*>(p.windows[tensor]) + index * kInt4Group * p.head_dim;

  if (first + kInt4Group <= end) {
    for (int i = threadIdx.x; i < kInt4Group * p.head_dim; i += kThreads) {
      const int row = i / p.head_dim;
      const int d = i % p.head_dim;
      const int64_t position = first + row;
      x[row * row_stride(p.head_dim) + d] =
          as_float(position < begin ? window[i] : rows[(position - first_new) * strides[2] + d]);
    }
    __syncthreads();
    uint8_t* codes = p.codes[tensor] + (index * p.capacity + first) * (p.head_dim / 2);
    __half* scales =
        static_cast<__half*>(p.scales[tensor]) + (index * p.capacity + first) * (p.head_dim / kInt4Group) * 2;
    if (tensor == 0) {
      quantize_keys(x, p.head_dim, codes, scales);
    } else {
      quantize_values(x, p.head_dim, codes, scales);
    }
  }
  if (which != 0) return;
  const int64_t open = max(end / kInt4Group * kInt4Group, begin);  // the first new position that stays in the window
  for (int64_t i = threadIdx.x; i < (end - open) * p.head_dim; i += kThreads) {
    const int64_t position = open + i / p.head_dim;
    const int64_t d = i % p.head_dim;
    window[position % kInt4Group * p.head_dim + d] = rows[(position - first_new) * strides[2] + d];
  }
}

template <typename Element>
cudaError_t launch(const Int4KvParams& p, cudaStream_t stream) {
  const int64_t groups = (p.seq + kInt4Group - 1) / kInt4Group + 1;  // that seq neighbours can reach
  const int64_t blocks = 2 * p.batch * p.heads * groups;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  int4_kv_append_groups<Element><<<static_cast<int>(blocks), kThreads, 0, stream>>>(p, static_cast<int>(groups));
  return cudaGetLastError();
}

}  // namespace

cudaError_t int4_kv_append_cuda(const Int4KvParams& p, cudaStream_t stream) {
  if (p.head_dim % kInt4Group != 0 || p.head_dim > kMostHeadDim || p.capacity % kInt4Group != 0) return cudaErrorInvalidValue;
  if (p.batch * p.heads * p.seq == 0) return cudaSuccess;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
