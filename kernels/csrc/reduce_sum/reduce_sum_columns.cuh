// Sums of columns: threads keep whole pieces of neighbouring sums.
#pragma once

#include "primitives/dependent_launch.cuh"
#include "reduce_sum/reduce_sum_load.cuh"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
namespace {

// out[o, split, i..] = sums of a part of the rows, `lanes` neighbouring loads of them (a power of two) a block.
template <class Element, bool kWide>
__global__ __launch_bounds__(kReduceSumThreads) void reduce_sum_columns(const ReduceSumParams p, int64_t part, int lanes,
                                                               uint32_t column_blocks) {
  constexpr int kThreads = kReduceSumThreads;
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

  wait_for_previous_kernel();
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
  let_next_kernel_begin();
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

}  // namespace
}  // namespace warpwatch
