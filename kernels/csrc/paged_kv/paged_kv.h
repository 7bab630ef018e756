// paged_kv.h: keys and values into the pages of a cache, and out of them.
//   k_pages, v_pages: (pages, heads_kv, page_size, head_dim), head_dim contiguous; page_size a power of two, 16 to 256
//   block_table: (batch, pages of a sequence) int32: position j of sequence b is row j % page_size of page
//   block_table[b, j / page_size]
//   k, v: (batch, heads_kv, seq, head_dim), head_dim contiguous
// append: row i of k and v goes to position lengths[b] - seq + i, lengths counting the new tokens already, as
//   decode_attention takes them; what falls outside 0 .. pages of a sequence * page_size - 1 is left out
// gather: k and v, contiguous, get positions 0 .. seq - 1 of each sequence; zeros from lengths[b] on
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
  int64_t page_strides[2][3];  // page, head, row; in bytes, as all strides
  int64_t row_strides[2][3];   // batch, head, row
  int64_t table_stride;        // in entries
  int64_t batch, heads, seq;
  int table_pages;  // of a sequence
  int page_shift;   // log2(page_size)
  int row_bytes;    // head_dim elements
};

// Byte offsets in the pages of a position's row of head 0: of keys and of values. One rule for the CPU and the GPU.
struct InPages {
  int64_t of[2];
};

// False where the position is not among the sequence's keys, or no page has room for it.
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

// Enqueue on `stream`; allocate nothing, wait for nothing. Any GPU; row_bytes is a multiple of 16 and every row starts on
// a 16-byte boundary.
cudaError_t paged_kv_append_cuda(const PagedKvParams& p, cudaStream_t stream);
cudaError_t paged_kv_gather_cuda(const PagedKvParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
