// Sums on every GPU: they wait for memory. Three kernels: rows that a part of a warp adds, rows (or parts of them) that
// a block adds, and columns, whose threads keep whole pieces of neighbouring sums.
#include "primitives/block_sum.cuh"
#include "primitives/piece.cuh"
#include "reduce_sum/reduce_sum.h"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
namespace {

constexpr int kThreads = kReduceSumThreads;

// What one load brings: a piece, or a single element where pieces do not fit; fp32 as soon as it is here.
template <class Element, bool kWide, bool kPastL1 = true>
struct Load {
  static constexpr int kElements = kWide ? Piece<Element>::kElements : 1;

  Piece<Element> piece;
  Element single;

  __device__ void get(const Element* from, bool live) {
    if constexpr (kWide) {
      piece.zero();
      if (!live) return;
      if constexpr (kPastL1) {
        piece.load_past_l1(from);
      } else {
        piece.load_once(from);
      }
    } else {
      from_float(0.0f, single);
      if (live) single = *from;
    }
  }
  __device__ void add_to(float (&sums)[kElements]) const {
    if constexpr (kWide) {
#pragma unroll
      for (int j = 0; j < Piece<Element>::kPairs; ++j) {
        const float2 pair = widen(piece.pairs[j]);
        sums[2 * j] += pair.x;
        sums[2 * j + 1] += pair.y;
      }
    } else {
      sums[0] += to_float(single);
    }
  }
};

__device__ void store_sum(const ReduceSumParams& p, int64_t at, float sum) {
  if (p.out_dtype == Dtype::kFloat32) {
    static_cast<float*>(p.out)[at] = sum;
  } else if (p.out_dtype == Dtype::kFloat16) {
    from_float(sum, static_cast<__half*>(p.out)[at]);
  } else {
    from_float(sum, static_cast<__nv_bfloat16*>(p.out)[at]);
  }
}

// One thread's share of `count` neighbours: every kLanes-th load from `lane` on, kAtOnce of them asked for together.
// Elements behind the last whole piece go one to a lane. Count is int where that will do: it is less to compute.
template <class Element, bool kWide, bool kPastL1, int kLanes, int kAtOnce, class Count>
__device__ float sum_share(const Element* from, Count count, int lane) {
  using L = Load<Element, kWide, kPastL1>;
  const Count loads = count / L::kElements;
  float sums[L::kElements] = {};
  for (Count first = lane; first < loads; first += kAtOnce * kLanes) {
    L held[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Count load = first + i * kLanes;
      held[i].get(from + load * L::kElements, load < loads);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) held[i].add_to(sums);
  }
  if constexpr (kWide) {
    for (Count i = loads * L::kElements + lane; i < count; i += kLanes) sums[0] += to_float(from[i]);
  }
#pragma unroll
  for (int distance = L::kElements / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < distance; ++j) sums[j] += sums[j + distance];
  }
  return sums[0];
}

// out[row] = sum of a row, kLanes threads each: a power of two, 32 at most.
template <class Element, bool kWide, int kLanes>
__global__ __launch_bounds__(kThreads) void reduce_sum_short_rows(const ReduceSumParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kLanes) + threadIdx.x / kLanes;
  const bool live = row < p.outer;  // the others stay, with zeros: shuffles want all of a warp
  const auto count = static_cast<int>(p.reduced);
  const Element* from = static_cast<const Element*>(p.x) + (live ? row : 0) * count;
  constexpr int kAtOnce = kReduceSumShortPieces;
  float sum = sum_share<Element, kWide, true, kLanes, kAtOnce>(from, live ? count : 0, threadIdx.x % kLanes);
  sum = lanes_sum<kLanes>(sum);
  if (live && threadIdx.x % kLanes == 0) store_sum(p, row, sum);
}

// out[row, split] = sum of a part of a row, or of all of it; a block each. Parts are a multiple of a piece long, but for
// the last.
template <class Element, bool kWide, bool kSplit>
__global__ __launch_bounds__(kThreads) void reduce_sum_long_rows(const ReduceSumParams p, int64_t part) {
  __shared__ float slots[kThreads / 32];
  int64_t row = blockIdx.x, begin = 0, count = p.reduced;
  if constexpr (kSplit) {
    const auto splits = static_cast<uint32_t>(p.splits);  // 32 bits: a division by a 64-bit number is a long program
    row = blockIdx.x / splits;
    begin = (blockIdx.x - row * splits) * part;
    count = begin < p.reduced ? min(part, p.reduced - begin) : 0;
    if (count == 0) begin = 0;
  }
  const Element* from = static_cast<const Element*>(p.x) + row * p.reduced + begin;
  float sum = sum_share<Element, kWide, !kSplit, kThreads, kReduceSumPieces>(from, count, threadIdx.x);
  sum = threads_sum<kThreads>(sum, slots);
  if (threadIdx.x == 0) store_sum(p, blockIdx.x, sum);
}

// out[o, split, i..] = sums of a part of the rows, `lanes` neighbouring loads of them (a power of two) a block.
template <class Element, bool kWide>
__global__ __launch_bounds__(kThreads) void reduce_sum_columns(const ReduceSumParams p, int64_t part, int lanes,
                                                               uint32_t column_blocks) {
  using L = Load<Element, kWide>;
  constexpr int kAtOnce = kReduceSumColumnPieces;
  // [j][thread]: neighbouring threads in neighbouring banks.
  __shared__ float partial[L::kElements][kThreads];
  const int lane = threadIdx.x % lanes;
  const int rows = kThreads / lanes;
  const uint32_t outer_split = blockIdx.x / column_blocks;
  const int64_t outer = outer_split / static_cast<uint32_t>(p.splits);
  const int64_t begin = outer_split % static_cast<uint32_t>(p.splits) * part;
  const int64_t end = min(begin + part, p.reduced);
  const int64_t column = (static_cast<int64_t>(blockIdx.x % column_blocks) * lanes + lane) * L::kElements;
  const bool live = column < p.inner;
  const Element* from = static_cast<const Element*>(p.x) + outer * p.reduced * p.inner + (live ? column : 0);

  float sums[L::kElements] = {};
  for (int64_t first = begin + threadIdx.x / lanes; first < end; first += int64_t{kAtOnce} * rows) {
    L held[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + int64_t{i} * rows;
      held[i].get(from + row * p.inner, live && row < end);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) held[i].add_to(sums);
  }
#pragma unroll
  for (int j = 0; j < L::kElements; ++j) partial[j][threadIdx.x] = sums[j];
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();  // what the upper half wrote is here; nobody writes where another still reads
    if (static_cast<int>(threadIdx.x) < half * lanes) {
#pragma unroll
      for (int j = 0; j < L::kElements; ++j) partial[j][threadIdx.x] += partial[j][threadIdx.x + half * lanes];
    }
  }
  if (live && static_cast<int>(threadIdx.x) < lanes) {
#pragma unroll
    for (int j = 0; j < L::kElements; ++j) {
      store_sum(p, static_cast<int64_t>(outer_split) * p.inner + column + j, partial[j][threadIdx.x]);
    }
  }
}

template <class Element, bool kWide>
void (*short_rows_kernel(int lanes))(ReduceSumParams) {
  switch (lanes) {
    case 1: return reduce_sum_short_rows<Element, kWide, 1>;
    case 2: return reduce_sum_short_rows<Element, kWide, 2>;
    case 4: return reduce_sum_short_rows<Element, kWide, 4>;
    case 8: return reduce_sum_short_rows<Element, kWide, 8>;
    case 16: return reduce_sum_short_rows<Element, kWide, 16>;
    case 32: return reduce_sum_short_rows<Element, kWide, 32>;
  }
  return nullptr;
}

// One pass: out is (outer, splits, inner).
template <class Element, bool kWide>
cudaError_t launch_pass(const ReduceSumParams& p, cudaStream_t stream) {
  constexpr int kElements = Load<Element, kWide>::kElements;
  const int64_t part = ((p.reduced - 1) / p.splits + kElements) / kElements * kElements;
  int64_t blocks = p.outer * p.splits;
  if (p.inner == 1) {
    const int lanes = reduce_sum_row_lanes((p.reduced - 1) / kElements + 1);
    if (lanes == kThreads) {
      if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
      const auto kernel =
          p.splits > 1 ? reduce_sum_long_rows<Element, kWide, true> : reduce_sum_long_rows<Element, kWide, false>;
      kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p, part);
      return cudaGetLastError();
    }
    if (p.splits != 1) return cudaErrorInvalidValue;
    blocks = (p.outer - 1) / (kThreads / lanes) + 1;
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    const auto kernel = short_rows_kernel<Element, kWide>(lanes);
    if (kernel == nullptr) return cudaErrorInvalidValue;  // reduce_sum_tiles.h asks for lanes not built here
    kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p);
    return cudaGetLastError();
  }
  const int64_t loads = (p.inner - 1) / kElements + 1;
  const int lanes = reduce_sum_column_lanes(loads, p.reduced);
  const int64_t column_blocks = (loads - 1) / lanes + 1;
  if (column_blocks > INT32_MAX || blocks > INT32_MAX / column_blocks) return cudaErrorInvalidConfiguration;
  reduce_sum_columns<Element, kWide><<<static_cast<unsigned>(blocks * column_blocks), kThreads, 0, stream>>>(
      p, (p.reduced - 1) / p.splits + 1, lanes, static_cast<uint32_t>(column_blocks));
  return cudaGetLastError();
}

// Pieces begin on multiples of 16 bytes where each row of neighbours does.
template <class Element>
cudaError_t launch_pass(const ReduceSumParams& p, cudaStream_t stream) {
  const int64_t neighbours = p.inner == 1 ? p.reduced : p.inner;
  const bool one_row = p.inner == 1 && p.outer == 1;
  const bool wide = on_piece(p.x) && (one_row || neighbours % Piece<Element>::kElements == 0);
  return wide ? launch_pass<Element, true>(p, stream) : launch_pass<Element, false>(p, stream);
}

cudaError_t launch_pass(const ReduceSumParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_pass<__half>(p, stream);
    case Dtype::kBFloat16: return launch_pass<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch_pass<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t reduce_sum_cuda(const ReduceSumParams& p, cudaStream_t stream) {
  if (p.outer < 1 || p.reduced < 1 || p.inner < 1 || p.splits < 1) return cudaErrorInvalidValue;
  if (p.splits == 1) return launch_pass(p, stream);
  if (p.workspace == nullptr) return cudaErrorInvalidValue;
  ReduceSumParams parts = p;
  parts.out = p.workspace;
  parts.out_dtype = Dtype::kFloat32;
  const cudaError_t status = launch_pass(parts, stream);
  if (status != cudaSuccess) return status;
  ReduceSumParams rest = p;
  rest.x = p.workspace;
  rest.dtype = Dtype::kFloat32;
  rest.reduced = p.splits;
  rest.splits = 1;
  return launch_pass(rest, stream);
}

}  // namespace warpwatch
