// The second pass over columns: few rows of fp32, which the first has just left in L2.
#pragma once

#include "primitives/dependent_launch.cuh"
#include "reduce_sum/reduce_sum_load.cuh"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
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

  wait_for_previous_kernel();
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
}  // namespace warpwatch
