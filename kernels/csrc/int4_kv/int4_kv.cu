// int4_kv_append on any GPU: a block handles one group, 32 positions of the keys or values of one head.
//
// Block index: (keys or values, sequence, head, group), groups counted from the first that the new tokens reach. Only the first
// group can contain earlier tokens, which it reads from the window; only the last can stay incomplete, and its tokens are
// stored to the window. The first group's block stores them, after it has read the window.
#include <cuda_runtime.h>

#include <climits>

#include "int4_kv/int4_kv.h"
#include "primitives/piece.cuh"

namespace warpwatch {
namespace {

constexpr int kThreads = 128;
constexpr int kMostHeadDim = 256;
constexpr int kBlocks = 8;   // per SM, with 64 registers per thread
constexpr int kUnrolled = 8;  // tokens
constexpr int kAtOnce = 4;  // 16-byte loads in flight per thread

// Minimum and maximum of some numbers. A NaN among them is recorded and otherwise ignored, unless it comes first.
struct Range {
  float least, most;
  bool not_a_number = false;

  __device__ __forceinline__ explicit Range(float first) : least(first), most(first) { add(first); }
  __device__ __forceinline__ void add(float value) {
    least = fminf(least, value);
    most = fmaxf(most, value);
    not_a_number |= value != value;
  }
};

struct Grid {
  __half scale, zero;
  float offset, inverse;

  __device__ __forceinline__ explicit Grid(const Range& range) {
    const float least = within_half(range.least);
    const float most = within_half(range.most);
    zero = __float2half_rn(range.not_a_number ? __int_as_float(0x7fc00000) : least);
    const float exact = __fdiv_rn(__fsub_rn(most, least), 15.0f);
    scale = __float2half_rn(exact);
    // The scale, if rounded up, may take the largest code beyond fp16's range.
    if (__fadd_rn(__fmul_rn(15.0f, __half2float(scale)), least) > kLargestHalf) scale = __float2half_rd(exact);
    offset = __half2float(zero);
    const float step = __half2float(scale);
    inverse = step > 0.0f ? __frcp_rn(step) : 0.0f;
  }
  // __float2int_rn rounds ties to even and converts NaN to 0.
  __device__ __forceinline__ uint32_t code(float x) const {
    return static_cast<uint32_t>(max(0, min(15, __float2int_rn(__fmul_rn(__fsub_rn(x, offset), inverse)))));
  }
};

// Rows of head_dim elements in shared memory, padded by 16 bytes so that consecutive rows start in different banks.
template <typename Element>
__device__ __forceinline__ int row_stride(int head_dim) {
  return head_dim + Piece<Element>::kElements;
}

// Keys: a thread handles two neighbouring channels of all 32 tokens. It reads them twice: held
// in registers, they would lower occupancy.
template <typename Element>
__device__ __forceinline__ void quantize_keys(const Element* x, int head_dim, uint8_t* codes, __half* scales) {
  using Pair = typename PairOf<Element>::Type;
  const int stride = row_stride<Element>(head_dim);
  for (int pair = threadIdx.x; pair < head_dim / 2; pair += kThreads) {
    const auto token = [&](int i) { return widen(*reinterpret_cast<const Pair*>(x + i * stride + 2 * pair)); };
    const float2 first = token(0);
    Range low_range(first.x), high_range(first.y);
#pragma unroll kUnrolled
    for (int i = 0; i < kInt4Group; ++i) {
      const float2 values = token(i);
      low_range.add(values.x);
      high_range.add(values.y);
    }
    const Grid low(low_range), high(high_range);
    scales[2 * pair] = low.scale;
    scales[2 * pair + 1] = high.scale;
    scales[head_dim + 2 * pair] = low.zero;
    scales[head_dim + 2 * pair + 1] = high.zero;
#pragma unroll kUnrolled
    for (int i = 0; i < kInt4Group; ++i) {
      const float2 values = token(i);
      codes[i * (head_dim / 2) + pair] = static_cast<uint8_t>(low.code(values.x) | high.code(values.y) << 4);
    }
  }
}

// Values: a thread handles 32 neighbouring channels of one token. `aligned`: codes are 16-byte aligned.
template <typename Element>
__device__ __forceinline__ void quantize_values(const Element* x, int head_dim, uint8_t* codes, __half* scales,
                                                bool aligned) {
  using P = Piece<Element>;
  constexpr int kPieces = kInt4Group / P::kElements;
  const int groups = head_dim / kInt4Group;
  for (int item = threadIdx.x; item < kInt4Group * groups; item += kThreads) {  // (token, group of channels)
    const int token = item / groups;
    const Element* from = x + token * row_stride<Element>(head_dim) + (item - token * groups) * kInt4Group;
    P held[kPieces];
#pragma unroll
    for (int n = 0; n < kPieces; ++n) held[n].load_once(from + n * P::kElements);
    Range range(widen(held[0].pairs[0]).x);
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
#pragma unroll
      for (int i = 0; i < P::kPairs; ++i) {
        const float2 values = widen(held[n].pairs[i]);
        range.add(values.x);
        range.add(values.y);
      }
    }
    const Grid grid(range);
    scales[2 * item] = grid.scale;
    scales[2 * item + 1] = grid.zero;
    uint32_t words[4] = {};  // eight codes each
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
      held[n].reload_from_packed();
#pragma unroll
      for (int i = 0; i < P::kPairs; ++i) {
        const float2 values = widen(held[n].pairs[i]);
        const int pair = n * P::kPairs + i;
        words[pair / 4] |= (grid.code(values.x) | grid.code(values.y) << 4) << 8 * (pair % 4);
      }
    }
    uint8_t* const to = codes + item * (kInt4Group / 2);
    if (aligned) {
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
#pragma unroll
      for (int i = 0; i < kInt4Group / 2; ++i) to[i] = static_cast<uint8_t>(words[i / 4] >> 8 * (i % 4));
    }
  }
}

// `aligned`: rows, windows and codes are 16-byte aligned.
template <typename Element>
__global__ void __launch_bounds__(kThreads, kBlocks) int4_kv_append_groups(const Int4KvParams p, int groups, bool aligned) {
  using P = Piece<Element>;
  __shared__ __align__(16) unsigned char shared[kInt4Group * (kMostHeadDim * sizeof(Element) + sizeof(P))];
  Element* const x = reinterpret_cast<Element*>(shared);  // (32, head_dim)
  int64_t rest = blockIdx.x;
  const int which = static_cast<int>(rest % groups);
  rest /= groups;
  const int64_t head = rest % p.heads;
  rest /= p.heads;
  const int64_t batch = rest % p.batch;
  const int tensor = static_cast<int>(rest / p.batch);

  const int length = p.lengths[batch];
  const int64_t first_new = length - p.seq;  // position of row 0
  const int64_t begin = max(first_new, int64_t{0});
  const int64_t end = min(static_cast<int64_t>(length), static_cast<int64_t>(p.capacity));
  const int64_t first = (begin / kInt4Group + which) * kInt4Group;
  if (begin >= end || first >= end) return;
  const int64_t index = batch * p.heads + head;
  const int64_t* strides = p.row_strides[tensor];
  const Element* rows = static_cast<const Element*>(p.rows[tensor]) + batch * strides[0] + head * strides[1];
  Element* window = static_cast<Element*>(p.windows[tensor]) + index * kInt4Group * p.head_dim;
  const auto row_of = [&](int row) {  // row of the group
    const int64_t position = first + row;
    return position < begin ? window + row * p.head_dim : rows + (position - first_new) * strides[2];
  };

  if (first + kInt4Group <= end) {
    const int stride = row_stride<Element>(p.head_dim);
    if (aligned) {
      const int across = p.head_dim / P::kElements;
      const int pieces = kInt4Group * across;
      for (int i = threadIdx.x; i < pieces; i += kAtOnce * kThreads) {
        P held[kAtOnce];
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          const int row = (i + n * kThreads) / across;
          if (row < kInt4Group) held[n].load_once(row_of(row) + (i + n * kThreads - row * across) * P::kElements);
        }
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          const int row = (i + n * kThreads) / across;
          if (row < kInt4Group) held[n].store(x + row * stride + (i + n * kThreads - row * across) * P::kElements);
        }
      }
    } else {
      for (int i = threadIdx.x; i < kInt4Group * p.head_dim; i += kThreads) {
        const int row = i / p.head_dim;
        x[row * stride + i - row * p.head_dim] = row_of(row)[i - row * p.head_dim];
      }
    }
    __syncthreads();
    uint8_t* codes = p.codes[tensor] + (index * p.capacity + first) * (p.head_dim / 2);
    __half* scales =
        static_cast<__half*>(p.scales[tensor]) + (index * p.capacity + first) * (p.head_dim / kInt4Group) * 2;
    if (tensor == 0) {
      quantize_keys(x, p.head_dim, codes, scales);
    } else {
      quantize_values(x, p.head_dim, codes, scales, aligned);
    }
  }
  if (which != 0) return;
  const int64_t open = max(end / kInt4Group * kInt4Group, begin);  // first new position that stays in the window
  const int staying = static_cast<int>(end - open) * p.head_dim;   // elements of fewer than 32 rows, or 0
  for (int i = threadIdx.x; i < staying; i += kThreads) {
    const int64_t position = open + i / p.head_dim;
    const int d = i % p.head_dim;
    window[position % kInt4Group * p.head_dim + d] = rows[(position - first_new) * strides[2] + d];
  }
}

// Whether everything that is accessed by 16-byte vectors is aligned.
template <typename Element>
bool in_pieces(const Int4KvParams& p) {
  for (int tensor = 0; tensor < 2; ++tensor) {
    if (!on_piece(p.rows[tensor]) || !on_piece(p.windows[tensor]) || !on_piece(p.codes[tensor])) return false;
    for (int64_t stride : p.row_strides[tensor]) {
      if (stride % Piece<Element>::kElements != 0) return false;
    }
  }
  return true;
}

template <typename Element>
cudaError_t launch(const Int4KvParams& p, cudaStream_t stream) {
  const int64_t groups = (p.seq + kInt4Group - 1) / kInt4Group + 1;  // most groups that seq positions touch
  const int64_t blocks = 2 * p.batch * p.heads * groups;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  int4_kv_append_groups<Element><<<static_cast<int>(blocks), kThreads, 0, stream>>>(p, static_cast<int>(groups), in_pieces<Element>(p));
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
