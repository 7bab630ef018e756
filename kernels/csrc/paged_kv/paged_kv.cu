// paged_kv_append and paged_kv_gather on any GPU: a thread moves 16 bytes of a key and 16 of its value; neighbouring threads
// move neighbouring pieces.
#include <cuda_runtime.h>

#include "paged_kv/paged_kv.h"
#include "paged_kv/paged_kv_rows.cuh"

namespace warpwatch {

// Tile sizes: the constants to edit when tuning these kernels.

// A thread moves one 16-byte piece of a key and one of its value: 32 bytes in flight, 64 KB per SM of 2048 threads; covering
// DRAM latency on an H200 takes about 26 KB.
constexpr int kPagedKvThreads = 128;  // per block

// Threads per block of paged_kv_append_rows, each moving a key's piece or a value's. Evidence: one H200, cold L2, us:
//                                  256    128    512    128 threads that move both
//   268 MB, pages of 64           70.6   70.4   72.2   71.1
//   268 MB, fp32, pages of 256    69.3   69.3   71.0   69.9
//   64 rows of 8 heads            4.47   4.56   4.57   4.51
constexpr int kPagedKvRowsThreads = 256;

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
    // Loaded before their destination is known: one wait covers them and the block-table look-up.
    uint4 key = load_streamed(row_at(p, 0, place) + piece);
    uint4 value = load_streamed(row_at(p, 1, place) + piece);
    load_before(key);
    load_before(value);
    InPages in;
    if (!find_in_pages(p, place.batch, p.lengths[place.batch] - p.seq + place.row, in)) return;
    page_row_at(p, 0, place.head, in)[piece] = key;  // plain stores: attention reads the newest rows next, from L2
    page_row_at(p, 1, place.head, in)[piece] = value;
  }
}

// The same with fewer parameters and one thread per piece of a key or a value; blockIdx.y 1 moves values. One read and one
// write stream each.
__global__ void __launch_bounds__(kPagedKvRowsThreads) paged_kv_append_rows(const PagedKvRows p) {
  const uint32_t thread = blockIdx.x * kPagedKvRowsThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const PagedKvRow row(p, thread);
  const bool is_value = blockIdx.y != 0;
  const void* from = is_value ? p.rows[1] : p.rows[0];  // an index would move the parameters to local memory
  void* to = is_value ? p.pages[1] : p.pages[0];
  uint4 held = load_streamed(static_cast<const uint4*>(from) + row.offset + row.lane);
  load_before(held);
  const int64_t position = row.position(p);
  if (!row.has_page(p, position)) return;
  static_cast<uint4*>(to)[row.page_offset(p, position) + row.lane] = held;
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
      key = load_streamed(page_row_at(p, 0, place.head, in) + piece);
      value = load_streamed(page_row_at(p, 1, place.head, in) + piece);
    }
    row_at(p, 0, place)[piece] = key;
    row_at(p, 1, place)[piece] = value;
  }
}

// The same with fewer parameters, into contiguous rows, with separate blocks for keys and values as in paged_kv_append_rows.
// Length and page are loaded together.
__global__ void __launch_bounds__(kPagedKvRowsThreads) paged_kv_gather_rows(const PagedKvRows p) {
  const uint32_t thread = blockIdx.x * kPagedKvRowsThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const PagedKvRow row(p, thread);
  const bool is_value = blockIdx.y != 0;
  const void* from = is_value ? p.pages[1] : p.pages[0];
  void* to = is_value ? p.rows[1] : p.rows[0];
  uint4 held = make_uint4(0, 0, 0, 0);
  if (row.has_page(p, row.of_seq)) {
    const int64_t at = row.page_offset(p, row.of_seq) + row.lane;
    if (static_cast<int64_t>(row.of_seq) < row.length) held = load_streamed(static_cast<const uint4*>(from) + at);
  }
  static_cast<uint4*>(to)[thread] = held;
}

bool rows_are_contiguous(const PagedKvParams& p) {
  for (const auto& strides : p.row_strides) {
    const int64_t of_head = p.seq * p.row_bytes;
    if (strides[2] != p.row_bytes || strides[1] != of_head || strides[0] != p.heads * of_head) return false;
  }
  return true;
}

bool describe(const PagedKvParams& p, PagedKvRows& rows) {
  const bool has_rows = p.batch > 0 && p.heads > 0 && p.seq > 0 && p.row_bytes > 0;
  return has_rows && p.row_bytes % 16 == 0 && describe_rows(p, p.row_bytes / 16, rows);
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
  if (!describe(p, rows)) return launch(paged_kv_append_kernel, p, stream);
  const dim3 blocks((rows.threads - 1) / kPagedKvRowsThreads + 1, 2);
  paged_kv_append_rows<<<blocks, kPagedKvRowsThreads, 0, stream>>>(rows);
  return cudaGetLastError();
}

cudaError_t paged_kv_gather_cuda(const PagedKvParams& p, cudaStream_t stream) {
  PagedKvRows rows;
  if (!rows_are_contiguous(p) || !describe(p, rows)) return launch(paged_kv_gather_kernel, p, stream);
  const dim3 blocks((rows.threads - 1) / kPagedKvRowsThreads + 1, 2);
  paged_kv_gather_rows<<<blocks, kPagedKvRowsThreads, 0, stream>>>(rows);
  return cudaGetLastError();
}

}  // namespace warpwatch
