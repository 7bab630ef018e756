// Sums of columns: threads keep whole pieces of neighbouring sums.
#pragma once

#include "primitives/dependent_launch.cuh"
#include "reduce_sum/reduce_sum_load.cuh"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
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

  wait_for_previous_kernel();
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
  let_next_kernel_begin();
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
}  // namespace warpwatch
