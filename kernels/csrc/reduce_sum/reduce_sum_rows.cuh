// Sums of neighbours: a part of a warp a row, or a block.
#pragma once

#include "primitives/block_sum.cuh"
#include "primitives/dependent_launch.cuh"
#include "reduce_sum/reduce_sum_load.cuh"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
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
template <class Element, bool kWide, bool kPastL1, int kLanes>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_short_rows(const ReduceSumParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kReduceSumThreads / kLanes) + threadIdx.x / kLanes;
  const bool live = row < p.outer;  // the others stay, with zeros: shuffles want all of a warp
  const auto count = static_cast<int>(p.reduced);
  const Element* from = static_cast<const Element*>(p.x) + (live ? row : 0) * count;
  constexpr int kAtOnce = kReduceSumShortPieces;
  wait_for_previous_kernel();
  float sum = sum_share<Element, kWide, kPastL1, kLanes, kAtOnce>(from, live ? count : 0, threadIdx.x % kLanes);
  sum = lanes_sum<kLanes>(sum);
  if (live && threadIdx.x % kLanes == 0) store_sum(p, row, sum);
}

// out[row, split] = sum of a part of a row, or of all of it; a block each. Parts are a multiple of a piece long, but for
// the last.
template <class Element, bool kWide, bool kPastL1, bool kSplit, int kThreads, int kAtOnce>
__global__ __launch_bounds__(kThreads) void reduce_sum_long_rows(const ReduceSumParams p, int64_t part) {
  __shared__ float slots[kThreads / 32];
  wait_for_previous_kernel();
  const Element* from = static_cast<const Element*>(p.x);
  float sum;
  if constexpr (kSplit) {
    const auto splits = static_cast<uint32_t>(p.splits);  // 32 bits: a division by a 64-bit number is a long program
    const int64_t row = blockIdx.x / splits;
    const int64_t begin = (blockIdx.x - row * splits) * part;
    const int64_t count = begin < p.reduced ? min(part, p.reduced - begin) : 0;
    from += row * p.reduced + (count > 0 ? begin : 0);
    sum = sum_share<Element, kWide, kPastL1, kThreads, kAtOnce>(from, count, threadIdx.x);
    let_next_kernel_begin();
  } else {
    from += blockIdx.x * p.reduced;
    sum = sum_share<Element, kWide, kPastL1, kThreads, kAtOnce>(from, static_cast<int>(p.reduced), threadIdx.x);
  }
  sum = threads_sum<kThreads>(sum, slots);
  if (threadIdx.x == 0) store_sum(p, blockIdx.x, sum);
}

}  // namespace
}  // namespace warpwatch
