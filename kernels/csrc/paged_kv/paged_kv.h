// paged_kv.h: appends keys and values to the pages of a cache, and gathers them.
//   k_pages, v_pages: (pages, heads_kv, page_size, head_dim), head_dim contiguous; page_size a power of two, 16 to 256
//   block_table: (batch, pages per sequence) int32: position j of sequence b is row j % page_size of page
//   block_table[b, j / page_size]
//   k, v: (batch, heads_kv, seq, head_dim), head_dim contiguous
// append: row i of k and v is stored at position lengths[b] - seq + i; as in decode_attention, lengths include the new tokens.
//   Positions outside 0 .. pages per sequence * page_size - 1 are skipped.
// gather: k and v, contiguous, receive positions 0 .. seq - 1 of each sequence; zeros from lengths[b] on.
// Both move 2 * 2 * batch heads_kv seq head_dim elements (each row is read and written once): memory-bound.
#pragma once

#include <cstdint>

#include "primitives/host_device.h"

namespace warpwatch {

struct PagedKvParams {
  void* pages[2];              // keys, values
  void* rows[2];               // k, v
  const int32_t* block_table;
  const int32_t* lengths;      // (batch)
  int64_t page_strides[2][3];  // page, head, row; in bytes, like all strides
  int64_t row_strides[2][3];   // batch, head, row
  int64_t table_stride;        // in entries
  int64_t batch, heads, seq;
  int table_pages;  // per sequence
  int page_shift;   // log2(page_size)
  int row_bytes;    // bytes of head_dim elements
};

// Byte offsets of a position's row in the pages of keys and of values, for head 0. Shared by CPU and GPU.
struct InPages {
  int64_t of[2];
};

// Returns false if the position is not among the sequence's keys, or no page holds it.
WARPWATCH_HOST_DEVICE bool find_in_pages(const PagedKvParams& p, int64_t batch, int64_t position, InPages& in) {
  const int64_t capacity = static_cast<int64_t>(p.table_pages) << p.page_shift;
  if (position < 0 || position >= capacity || position >= p.lengths[batch]) return false;
  const int64_t page = p.block_table[batch * p.table_stride + (position >> p.page_shift)];
  const int64_t page_row = position & ((int64_t{1} << p.page_shift) - 1);
  for (int tensor = 0; tensor < 2; ++tensor) {
    in.of[tensor] = page * p.page_strides[tensor][0] + page_row * p.page_strides[tensor][2];
  }
  return true;
}

void paged_kv_append_cpu(const PagedKvParams& p);
void paged_kv_gather_cpu(const PagedKvParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueue on `stream`; no allocation, no synchronisation. Any GPU; row_bytes is a
// multiple of 16 and every row is 16-byte aligned.
cudaError_t paged_kv_append_cuda(const PagedKvParams& p, cudaStream_t stream);
cudaError_t paged_kv_gather_cuda(const PagedKvParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
