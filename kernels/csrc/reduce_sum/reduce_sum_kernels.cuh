// Kernels of reduce_sum: rows by part of a warp, rows by a block, columns, and the second pass over columns.
#pragma once

#include "primitives/block_sum.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/piece.cuh"
#include "reduce_sum/reduce_sum.h"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {

// Shared: how elements are loaded, and how a sum is stored.

namespace {

// One load: a 16-byte vector, or one element if vectors are not aligned; widened to fp32 on use.
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
        piece.load_nc_no_allocate(from);
      } else {
        piece.load_once(from);
      }
    } else {
      from_float(0.0f, single);
      if (live) single = *from;
    }
  }
  __device__ void take(const Load& other) {
    piece.bits = other.piece.bits;
    single = other.single;
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
      sums[0] += as_float(single);
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

}  // namespace

// Second pass over columns: few rows of fp32, which the first pass has just left in L2.

namespace {

// out[o, i..] = sums of the parts x (outer, reduced, inner). A block handles 8 neighbouring loads and 32 parts at once: short
// strips and many blocks, since it is bound by L2's latency rather than its bandwidth.
template <bool kWide>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_second_columns(const ReduceSumParams p,
                                                                      uint32_t column_blocks) {
  using L = Load<float, kWide, false>;  // the first pass may still write: no read-only (nc) loads
  constexpr int kLanes = kReduceSumSecondLanes;
  constexpr int kRows = kReduceSumThreads / kLanes;
  constexpr int kWarps = kReduceSumThreads / 32;
  constexpr int kAtOnce = kReduceSumSecondPieces;
  __shared__ float partial[L::kElements][kWarps][kLanes];
  const int lane = threadIdx.x % kLanes;
  const uint32_t outer = blockIdx.x / column_blocks;
  const int64_t column = (static_cast<int64_t>(blockIdx.x - outer * column_blocks) * kLanes + lane) * L::kElements;
  const bool live = column < p.inner;
  const auto parts = static_cast<int>(p.reduced);
  const float* from = static_cast<const float*>(p.x) + outer * p.reduced * p.inner + (live ? column : 0);

  grid_dependency_wait();
  float sums[L::kElements] = {};
  for (int first = threadIdx.x / kLanes; first < parts; first += kAtOnce * kRows) {
    L held[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int part = first + i * kRows;
      held[i].get(from + part * p.inner, live && part < parts);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) held[i].add_to(sums);
  }
#pragma unroll
  for (int j = 0; j < L::kElements; ++j) {
#pragma unroll
    for (int distance = kLanes; distance < 32; distance *= 2) {
      sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], distance);
    }
    if (threadIdx.x % 32 < kLanes) partial[j][threadIdx.x / 32][lane] = sums[j];
  }
  __syncthreads();
  if (threadIdx.x >= kLanes || !live) return;
#pragma unroll
  for (int j = 0; j < L::kElements; ++j) {
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += partial[j][warp][lane];
    store_sum(p, outer * p.inner + column + j, sum);
  }
}

}  // namespace

// Sums of columns: a thread accumulates whole vectors of neighbouring sums.

namespace {

// out[o, split, i..] = sums of a part of the rows. A block handles `lanes` neighbouring loads per row with `rows` threads each;
// if that is fewer threads than a block has, it handles several consecutive o. Both are powers of two. Splits interleave in
// steps of kAtOnce rows per thread, so that all blocks together sweep through x. A thread issues the next step's loads before
// it adds this step's.
template <class Element, bool kWide>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_columns(const ReduceSumParams p, int lanes,
                                                               int rows, uint32_t column_blocks) {
  constexpr int kThreads = kReduceSumThreads;
  // Through L1, not no_allocate. Evidence: one H200, us: 65536 rows of 8 KB 137.3 against 142.9; 32768 rows 77.2 against 76.7.
  using L = Load<Element, kWide, false>;
  constexpr int kAtOnce = kReduceSumColumnPieces;
  // [j][thread]: neighbouring threads use neighbouring banks.
  __shared__ float partial[L::kElements][kThreads];
  const int lane = threadIdx.x % lanes;
  const int row_of_thread = threadIdx.x / lanes % rows;
  const int outers = kThreads / (lanes * rows);  // per block
  const uint32_t block_split = blockIdx.x / column_blocks;
  const auto splits = static_cast<uint32_t>(p.splits);
  const uint32_t split = block_split % splits;
  const int64_t outer = static_cast<int64_t>(block_split / splits) * outers + threadIdx.x / (lanes * rows);
  const int64_t column = (static_cast<int64_t>(blockIdx.x % column_blocks) * lanes + lane) * L::kElements;
  const bool live = column < p.inner && outer < p.outer;
  int64_t row = static_cast<int64_t>(split) * (kAtOnce * rows) + row_of_thread;
  const int64_t turn = static_cast<int64_t>(splits) * (kAtOnce * rows);
  const Element* from = static_cast<const Element*>(p.x) + (outer * p.reduced + row) * p.inner + column;
  const auto get = [&](L (&loads)[kAtOnce]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      loads[i].get(from + static_cast<int64_t>(i * rows) * p.inner, live && row + i * rows < p.reduced);
    }
  };

  grid_dependency_wait();
  float sums[L::kElements] = {};
  L held[kAtOnce], next[kAtOnce];
  get(held);
  while (row < p.reduced) {
    row += turn;
    from += turn * p.inner;
    get(next);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      held[i].add_to(sums);
      held[i].take(next[i]);
    }
  }
  launch_dependents();
#pragma unroll
  for (int j = 0; j < L::kElements; ++j) partial[j][threadIdx.x] = sums[j];
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();  // the upper half's sums are written, and all reads of the previous step are done
    if (row_of_thread < half) {
#pragma unroll
      for (int j = 0; j < L::kElements; ++j) partial[j][threadIdx.x] += partial[j][threadIdx.x + half * lanes];
    }
  }
  if (live && row_of_thread == 0) {
#pragma unroll
    for (int j = 0; j < L::kElements; ++j) {
      store_sum(p, (outer * splits + split) * p.inner + column + j, partial[j][threadIdx.x]);
    }
  }
}

}  // namespace

namespace {

// Sums one thread's share of `count` consecutive elements: every kLanes-th load from `lane` on, kAtOnce issued together.
// Elements past the last whole vector go one to a lane. Count is int if it suffices, which takes fewer instructions.
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
    for (Count i = loads * L::kElements + lane; i < count; i += kLanes) sums[0] += as_float(from[i]);
  }
#pragma unroll
  for (int distance = L::kElements / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < distance; ++j) sums[j] += sums[j + distance];
  }
  return sums[0];
}

// out[row] = sum of a row, by kLanes threads, a power of two up to 32.
template <class Element, bool kWide, bool kPastL1, int kLanes>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_short_rows(const ReduceSumParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kReduceSumThreads / kLanes) + threadIdx.x / kLanes;
  const bool live = row < p.outer;  // inactive threads continue with zeros: shuffles need the whole warp
  const auto count = static_cast<int>(p.reduced);
  const Element* from = static_cast<const Element*>(p.x) + (live ? row : 0) * count;
  constexpr int kAtOnce = kReduceSumShortPieces;
  grid_dependency_wait();
  float sum = sum_share<Element, kWide, kPastL1, kLanes, kAtOnce>(from, live ? count : 0, threadIdx.x % kLanes);
  sum = lanes_sum<kLanes>(sum);
  if (live && threadIdx.x % kLanes == 0) store_sum(p, row, sum);
}

// out[row, split] = sum of a whole row or of one split of it; one block each. Splits are a
// multiple of a vector long, except the last.
template <class Element, bool kWide, bool kPastL1, bool kSplit, int kThreads, int kAtOnce>
__global__ __launch_bounds__(kThreads) void reduce_sum_long_rows(const ReduceSumParams p, int64_t part) {
  __shared__ float slots[kThreads / 32];
  grid_dependency_wait();
  const Element* from = static_cast<const Element*>(p.x);
  float sum;
  if constexpr (kSplit) {
    const auto splits = static_cast<uint32_t>(p.splits);  // 32 bits: a 64-bit division takes many instructions
    const int64_t row = blockIdx.x / splits;
    const int64_t begin = (blockIdx.x - row * splits) * part;
    const int64_t count = begin < p.reduced ? min(part, p.reduced - begin) : 0;
    from += row * p.reduced + (count > 0 ? begin : 0);
    sum = sum_share<Element, kWide, kPastL1, kThreads, kAtOnce>(from, count, threadIdx.x);
    launch_dependents();
  } else {
    from += blockIdx.x * p.reduced;
    sum = sum_share<Element, kWide, kPastL1, kThreads, kAtOnce>(from, static_cast<int>(p.reduced), threadIdx.x);
  }
  sum = threads_sum<kThreads>(sum, slots);
  if (threadIdx.x == 0) store_sum(p, blockIdx.x, sum);
}

}  // namespace
}  // namespace warpwatch
