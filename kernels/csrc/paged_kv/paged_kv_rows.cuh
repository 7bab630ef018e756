// Parameters of kernels that move rows into or out of pages, in 112 bytes; PagedKvParams and a PagedKvCover take 232. A launch
// with 240 bytes takes 0.2 us longer than one with 112, even if the kernel reads only the first ones (H100, cold L2).
#pragma once

#include "paged_kv/paged_kv.h"
#include "primitives/divisor.cuh"
#include "primitives/kept_load.cuh"

namespace warpwatch {

// Mapping of a kernel's threads to the rows.

// `lanes` threads per row, `rows` rows per block. Rows are numbered along the sequence
// first, then over heads, then over the batch.
struct PagedKvCover {
  Divisor lanes, seq, heads;
  uint32_t rows, all_rows;
};

// A thread's work: one piece of one row.
struct PagedKvPlace {
  int64_t batch, head, row;
  int lane;  // first piece of the row; the thread's next is `lanes` further
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

// Covers all rows with `threads` threads per block and one thread per piece. cudaErrorInvalidConfiguration from 2^31 rows on,
// which no GPU's memory holds.
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

// Strides are in units of 16 bytes and equal for keys and values. Rows are numbered along the sequence first, then over heads,
// then over the batch; 2^lanes_shift threads share a row.
struct PagedKvRows {
  Divisor seq, heads;
  uint32_t threads;
  uint16_t lanes_shift, page_shift;  // log2 of lanes and of page_size
  const int32_t* lengths;
  const int32_t* block_table;
  int32_t table_stride, table_pages;
  int32_t of_batch, of_head, of_row;             // strides of rows
  int32_t of_page, of_page_head, of_page_row;  // strides of pages
  void* rows[2];
  void* pages[2];
};
static_assert(sizeof(PagedKvRows) <= 112);

// A thread's row: row of_seq of its sequence in k and v.
struct PagedKvRow {
  uint32_t batch, head, lane, of_seq;
  int32_t length;  // of the sequence
  int64_t offset;  // in k and v, in units of 16 bytes

  // Loads the length first: the block-table look-up and the stores depend on it.
  __device__ __forceinline__ PagedKvRow(const PagedKvRows& p, uint32_t thread) {
    const uint32_t row = thread >> p.lanes_shift, head_batch = p.seq.quotient(row);
    batch = p.heads.quotient(head_batch);
    length = load_kept(p.lengths + batch);
    head = head_batch - batch * p.heads.divisor();
    lane = thread - (row << p.lanes_shift);
    of_seq = row - head_batch * p.seq.divisor();
    offset = static_cast<int64_t>(batch) * p.of_batch + static_cast<int64_t>(head) * p.of_head +
             static_cast<int64_t>(of_seq) * p.of_row;
  }

  // The position at which the row is appended.
  __device__ __forceinline__ int64_t position(const PagedKvRows& p) const {
    return static_cast<int64_t>(length) - p.seq.divisor() + of_seq;
  }

  __device__ __forceinline__ bool has_page(const PagedKvRows& p, int64_t position) const {
    return position >= 0 && position < static_cast<int64_t>(p.table_pages) << p.page_shift;
  }

  // A position's offset in the pages, in units of 16 bytes. Requires has_page().
  __device__ __forceinline__ int64_t page_offset(const PagedKvRows& p, int64_t position) const {
    const int32_t page =
        load_kept(p.block_table + static_cast<int64_t>(batch) * p.table_stride + (position >> p.page_shift));
    const auto row = static_cast<uint32_t>(position) & ((1u << p.page_shift) - 1);
    return static_cast<int64_t>(page) * p.of_page + static_cast<int64_t>(head) * p.of_page_head +
           static_cast<int64_t>(row) * p.of_page_row;
  }
};

// Returns false if a stride does not fit 32 bits, keys and values have different strides, `lanes` is not a power of two, or
// there would be 2^31 threads.
inline bool describe_rows(const PagedKvParams& p, int64_t lanes, PagedKvRows& rows) {
  if (lanes < 1 || (lanes & (lanes - 1)) != 0) return false;
  for (const auto& strides : {p.row_strides, p.page_strides}) {
    for (int i = 0; i < 3; ++i) {
      const int64_t stride = strides[0][i] / 16;
      if (strides[0][i] != strides[1][i] || stride < INT32_MIN || stride > INT32_MAX) return false;
    }
  }
  if (p.table_stride < INT32_MIN || p.table_stride > INT32_MAX || lanes > INT32_MAX / p.seq / p.heads / p.batch) {
    return false;
  }
  const auto pieces = [](int64_t bytes) { return static_cast<int32_t>(bytes / 16); };
  rows.lanes_shift = 0;
  while (int64_t{1} << rows.lanes_shift < lanes) ++rows.lanes_shift;
  rows.seq = Divisor(static_cast<uint32_t>(p.seq));
  rows.heads = Divisor(static_cast<uint32_t>(p.heads));
  rows.threads = static_cast<uint32_t>(lanes * p.seq * p.heads * p.batch);
  rows.lengths = p.lengths;
  rows.block_table = p.block_table;
  rows.table_stride = static_cast<int32_t>(p.table_stride);
  rows.table_pages = p.table_pages;
  rows.page_shift = static_cast<uint16_t>(p.page_shift);
  rows.of_batch = pieces(p.row_strides[0][0]);
  rows.of_head = pieces(p.row_strides[0][1]);
  rows.of_row = pieces(p.row_strides[0][2]);
  rows.of_page = pieces(p.page_strides[0][0]);
  rows.of_page_head = pieces(p.page_strides[0][1]);
  rows.of_page_row = pieces(p.page_strides[0][2]);
  for (int tensor = 0; tensor < 2; ++tensor) {
    rows.rows[tensor] = p.rows[tensor];
    rows.pages[tensor] = p.pages[tensor];
  }
  return true;
}

}  // namespace warpwatch
