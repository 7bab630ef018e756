// paged_kv_append and paged_kv_gather on any GPU: a thread moves 16 bytes of a key and as many of its value, neighbours
// neighbouring ones.
#include <cuda_runtime.h>

#include "paged_kv/paged_kv.h"
#include "paged_kv/paged_kv_cover.cuh"
#include "paged_kv/paged_kv_places.h"
#include "paged_kv/paged_kv_rows.cuh"
#include "paged_kv/paged_kv_tiles.h"

namespace warpwatch {
namespace {

__device__ __forceinline__ uint4* row_at(const PagedKvParams& p, int tensor, const PagedKvPlace& place) {
  const int64_t* strides = p.row_strides[tensor];
  return reinterpret_cast<uint4*>(static_cast<char*>(p.rows[tensor]) + place.batch * strides[0] +
                                  place.head * strides[1] + place.row * strides[2]);
}

__device__ __forceinline__ uint4* page_row_at(const PagedKvParams& p, int tensor, int64_t head, const InPages& in) {
  return reinterpret_cast<uint4*>(static_cast<char*>(p.pages[tensor]) + in.of[tensor] +
                                  head * p.page_strides[tensor][1]);
}

__global__ void __launch_bounds__(kPagedKvThreads) paged_kv_append_kernel(const PagedKvParams p,
                                                                          const PagedKvCover cover) {
  PagedKvPlace place;
  if (!find_place(cover, place)) return;
  for (int piece = place.lane; piece < p.row_bytes / 16; piece += cover.lanes.divisor()) {
    // Before their place is known: one wait covers them and the way through the block table.
    const uint4 key = row_at(p, 0, place)[piece];
    const uint4 value = row_at(p, 1, place)[piece];
    InPages in;
    if (!find_in_pages(p, place.batch, p.lengths[place.batch] - p.seq + place.row, in)) return;
    page_row_at(p, 0, place.head, in)[piece] = key;  // plain stores: attention reads the newest rows at once
    page_row_at(p, 1, place.head, in)[piece] = value;
  }
}

// The same with fewer parameters: a thread for each piece.
__global__ void __launch_bounds__(kPagedKvThreads) paged_kv_append_rows(const PagedKvRows p) {
  const uint32_t thread = blockIdx.x * kPagedKvThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const PagedKvRow row(p, thread);
  const uint4 key = static_cast<const uint4*>(p.rows[0])[row.offset + row.lane];
  const uint4 value = static_cast<const uint4*>(p.rows[1])[row.offset + row.lane];
  if (!row.has_page(p)) return;
  const int64_t to = row.page_offset(p) + row.lane;
  static_cast<uint4*>(p.pages[0])[to] = key;
  static_cast<uint4*>(p.pages[1])[to] = value;
}

__global__ void __launch_bounds__(kPagedKvThreads) paged_kv_gather_kernel(const PagedKvParams p,
                                                                          const PagedKvCover cover) {
  PagedKvPlace place;
  if (!find_place(cover, place)) return;
  InPages in;
  const bool held = find_in_pages(p, place.batch, place.row, in);
  for (int piece = place.lane; piece < p.row_bytes / 16; piece += cover.lanes.divisor()) {
    uint4 key = make_uint4(0, 0, 0, 0);
    uint4 value = key;
    if (held) {
      key = page_row_at(p, 0, place.head, in)[piece];
      value = page_row_at(p, 1, place.head, in)[piece];
    }
    row_at(p, 0, place)[piece] = key;
    row_at(p, 1, place)[piece] = value;
  }
}

cudaError_t launch(void (*kernel)(PagedKvParams, PagedKvCover), const PagedKvParams& p, cudaStream_t stream) {
  if (p.row_bytes % 16 != 0) return cudaErrorInvalidValue;
  if (p.batch == 0 || p.heads == 0 || p.seq == 0 || p.row_bytes == 0) return cudaSuccess;
  PagedKvCover cover;
  unsigned blocks;
  const cudaError_t error = cover_rows(p, p.row_bytes / 16, kPagedKvThreads, cover, blocks);
  if (error != cudaSuccess) return error;
  kernel<<<blocks, kPagedKvThreads, 0, stream>>>(p, cover);
  return cudaGetLastError();
}

}  // namespace

cudaError_t paged_kv_append_cuda(const PagedKvParams& p, cudaStream_t stream) {
  PagedKvRows rows;
  const bool has_rows = p.batch > 0 && p.heads > 0 && p.seq > 0 && p.row_bytes > 0;
  if (has_rows && p.row_bytes % 16 == 0 && describe_rows(p, p.row_bytes / 16, rows)) {
    paged_kv_append_rows<<<(rows.threads - 1) / kPagedKvThreads + 1, kPagedKvThreads, 0, stream>>>(rows);
    return cudaGetLastError();
  }
  return launch(paged_kv_append_kernel, p, stream);
}

cudaError_t paged_kv_gather_cuda(const PagedKvParams& p, cudaStream_t stream) {
  return launch(paged_kv_gather_kernel, p, stream);
}

}  // namespace warpwatch
