// paged_kv_append and paged_kv_gather on any GPU: a thread moves 16 bytes, neighbours neighbouring ones.
//
// Chunks are numbered row by row of k, then of v: (of keys or values, sequence, head, position, chunk of the row).
#include <cuda_runtime.h>

#include <climits>

#include "paged_kv/paged_kv.h"

namespace warpwatch {
namespace {

constexpr int kThreads = 256;

struct Chunk {
  uint4* in_rows;
  uint4* in_pages;  // null where the position has no page, or nothing to hold
};

template <bool Append>
__device__ __forceinline__ bool find_chunk(const PagedKvParams& p, Chunk& chunk) {
  const int chunks = p.row_bytes / 16;
  const int64_t per_tensor = p.batch * p.heads * p.seq * chunks;
  int64_t rest = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (rest >= 2 * per_tensor) return false;
  const int tensor = rest >= per_tensor;
  rest -= tensor * per_tensor;
  const int64_t within = rest % chunks * 16;
  rest /= chunks;
  const int64_t row = rest % p.seq;
  rest /= p.seq;
  const int64_t head = rest % p.heads;
  const int64_t batch = rest / p.heads;

  const int64_t* strides = p.row_strides[tensor];
  chunk.in_rows = reinterpret_cast<uint4*>(static_cast<char*>(p.rows[tensor]) + batch * strides[0] + head * strides[1] +
                                           row * strides[2] + within);
  chunk.in_pages = nullptr;
  const int64_t capacity = static_cast<int64_t>(p.table_pages) << p.page_shift;
  const int64_t length = p.lengths[batch];
  const int64_t position = Append ? length - p.seq + row : row;
  if (position >= 0 && position < capacity && position < length) {
    const int64_t page = p.block_table[batch * p.table_stride + (position >> p.page_shift)];
    const int64_t page_row = position & ((int64_t{1} << p.page_shift) - 1);
    const int64_t* page_strides = p.page_strides[tensor];
    chunk.in_pages = reinterpret_cast<uint4*>(static_cast<char*>(p.pages[tensor]) + page * page_strides[0] +
                                              head * page_strides[1] + page_row * page_strides[2] + within);
  }
  return true;
}

__global__ void __launch_bounds__(kThreads) paged_kv_append_kernel(const PagedKvParams p) {
  Chunk chunk;
  if (find_chunk<true>(p, chunk) && chunk.in_pages != nullptr) *chunk.in_pages = *chunk.in_rows;
}

__global__ void __launch_bounds__(kThreads) paged_kv_gather_kernel(const PagedKvParams p) {
  Chunk chunk;
  if (!find_chunk<false>(p, chunk)) return;
  *chunk.in_rows = chunk.in_pages == nullptr ? make_uint4(0, 0, 0, 0) : *chunk.in_pages;
}

cudaError_t launch(void (*kernel)(PagedKvParams), const PagedKvParams& p, cudaStream_t stream) {
  const int64_t chunks = 2 * p.batch * p.heads * p.seq * (p.row_bytes / 16);
  const int64_t blocks = (chunks + kThreads - 1) / kThreads;
  if (p.row_bytes % 16 != 0 || blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  kernel<<<static_cast<int>(blocks), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t paged_kv_append_cuda(const PagedKvParams& p, cudaStream_t stream) {
  return launch(paged_kv_append_kernel, p, stream);
}

cudaError_t paged_kv_gather_cuda(const PagedKvParams& p, cudaStream_t stream) {
  return launch(paged_kv_gather_kernel, p, stream);
}

}  // namespace warpwatch
