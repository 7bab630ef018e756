// Sums of neighbours: a part of a warp a row, or a block.
#pragma once

#include "primitives/block_sum.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/piece.cuh"
#include "reduce_sum/reduce_sum.h"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {

// What the sums' kernels have in common: how elements come in, and how a sum goes out.

namespace {

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

// The second pass over columns: few rows of fp32, which the first has just left in L2.

namespace {

// out[o, i..] = sums of the parts x (outer, reduced, inner). A block takes 8 neighbouring loads and 32 parts at once:
// short strips and many blocks, since what it waits for is the L2's latency and not its bandwidth.
template <bool kWide>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_second_columns(const ReduceSumParams p,
                                                                      uint32_t column_blocks) {
  using L = Load<float, kWide, false>;  // the first pass may still write: no load that takes memory for read-only
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

// Sums of columns: threads keep whole pieces of neighbouring sums.

namespace {

// out[o, split, i..] = sums of a part of the rows, `lanes` neighbouring loads of them a block, by `rows` threads each; where
// those are fewer than a block has, it takes several neighbours of `o`. Both are powers of two. Parts take turns, kAtOnce rows a thread each time, so that all blocks together walk through x; a thread asks for the next turn's
// rows before it adds this one's.
template <class Element, bool kWide>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_columns(const ReduceSumParams p, int lanes,
                                                               int rows, uint32_t column_blocks) {
  constexpr int kThreads = kReduceSumThreads;
  // Not past L1: 65536 rows of 8 KB take 137.3 us so, 142.9 otherwise; 32768 of them 77.2 and 76.7 (H200).
  using L = Load<Element, kWide, false>;
  constexpr int kAtOnce = kReduceSumColumnPieces;
  // [j][thread]: neighbouring threads in neighbouring banks.
  __shared__ float partial[L::kElements][kThreads];
  const int lane = threadIdx.x % lanes;
  const int row_of_thread = threadIdx.x / lanes % rows;
  const int outers = kThreads / (lanes * rows);  // of a block
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
    __syncthreads();  // what the upper half wrote is here; nobody writes where another still reads
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
    for (Count i = loads * L::kElements + lane; i < count; i += kLanes) sums[0] += as_float(from[i]);
  }
#pragma unroll
  for (int distance = L::kElements / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < distance; ++j) sums[j] += sums[j + distance];
  }
  return sums[0];
}

// out[row] = sum of a row, kLanes threads each: a power of two, 32 at most.
template <class Element, bool kWide, bool kPastL1, int kLanes>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_short_rows(const ReduceSumParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kReduceSumThreads / kLanes) + threadIdx.x / kLanes;
  const bool live = row < p.outer;  // the others stay, with zeros: shuffles want all of a warp
  const auto count = static_cast<int>(p.reduced);
  const Element* from = static_cast<const Element*>(p.x) + (live ? row : 0) * count;
  constexpr int kAtOnce = kReduceSumShortPieces;
  grid_dependency_wait();
  float sum = sum_share<Element, kWide, kPastL1, kLanes, kAtOnce>(from, live ? count : 0, threadIdx.x % kLanes);
  sum = lanes_sum<kLanes>(sum);
  if (live && threadIdx.x % kLanes == 0) store_sum(p, row, sum);
}

// out[row, split] = sum of a part of a row, or of all of it; a block each. Parts are a multiple of a piece long, but for
// the last.
template <class Element, bool kWide, bool kPastL1, bool kSplit, int kThreads, int kAtOnce>
__global__ __launch_bounds__(kThreads) void reduce_sum_long_rows(const ReduceSumParams p, int64_t part) {
  __shared__ float slots[kThreads / 32];
  grid_dependency_wait();
  const Element* from = static_cast<const Element*>(p.x);
  float sum;
  if constexpr (kSplit) {
    const auto splits = static_cast<uint32_t>(p.splits);  // 32 bits: a division by a 64-bit number is a long program
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
