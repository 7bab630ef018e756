// How the threads of a kernel cover rows that go into pages or come out of them.
#pragma once

#include "paged_kv/paged_kv.h"
#include "primitives/divisor.cuh"

namespace warpwatch {

// `lanes` threads side by side along a row, `rows` rows a block. Rows run along the sequence first, then over the heads,
// then over the batch.
struct PagedKvCover {
  Divisor lanes, seq, heads;
  uint32_t rows, all_rows;
};

// Where a thread works: one piece of one row.
struct PagedKvPlace {
  int64_t batch, head, row;
  int lane;  // first piece of the row; the next one is `lanes` further
};

__device__ __forceinline__ bool find_place(const PagedKvCover& cover, PagedKvPlace& place) {
  const uint32_t row_of_block = cover.lanes.quotient(threadIdx.x);
  const uint32_t row = blockIdx.x * cover.rows + row_of_block;
  const uint32_t head_batch = cover.seq.quotient(row);
  const uint32_t batch = cover.heads.quotient(head_batch);
  place.lane = threadIdx.x - row_of_block * cover.lanes.divisor();
  place.row = row - head_batch * cover.seq.divisor();
  place.head = head_batch - batch * cover.heads.divisor();
  place.batch = batch;
  return row_of_block < cover.rows && row < cover.all_rows;
}

// One block for so many rows as `threads` threads cover with a thread a piece. cudaErrorInvalidConfiguration from 2^31
// rows on, which no GPU's memory holds.
inline cudaError_t cover_rows(const PagedKvParams& p, int64_t pieces, int threads, PagedKvCover& cover,
                              unsigned& blocks) {
  if (p.seq > (INT32_MAX - threads) / p.heads / p.batch) return cudaErrorInvalidConfiguration;
  const auto lanes = static_cast<uint32_t>(pieces < threads ? pieces : threads);
  cover.lanes = Divisor(lanes);
  cover.seq = Divisor(static_cast<uint32_t>(p.seq));
  cover.heads = Divisor(static_cast<uint32_t>(p.heads));
  cover.rows = threads / lanes;
  cover.all_rows = static_cast<uint32_t>(p.seq * p.heads * p.batch);
  blocks = (cover.all_rows - 1) / cover.rows + 1;
  return cudaSuccess;
}

}  // namespace warpwatch
