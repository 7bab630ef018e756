// Which queries a thread block owns, and which keys they can see.
//
// Blocks are numbered section by section. A section is some of the query heads, whose keys and values take at most half
// of L2; within it the heads run fastest, so the heads that share a key head run side by side, and under the causal mask
// the query tiles with most keys come first. All sections are of about one size: the last blocks to start are then the
// short ones of many heads, not the long ones of the few heads that would be left over.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <cstdint>

#include "flash_attention/flash_attention.h"

namespace warpwatch {

struct FlashAttentionSchedule {
  int query_tiles;
  int heads_per_section;  // of the batch * heads_q query heads
  int blocks;
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// cudaErrorInvalidValue when the grid would pass 2**31 - 1 blocks.
inline cudaError_t make_schedule(const FlashAttentionParams& p, int queries, int element_bytes,
                                 FlashAttentionSchedule* schedule) {
  int device = 0;
  int l2_bytes = 0;
  if (cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (cudaError_t error = cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device); error != cudaSuccess) {
    return error;
  }
  const int64_t heads = int64_t{p.batch} * p.heads_q;
  const int64_t tiles = ceil_div(p.seq_q, queries);
  if (heads > INT_MAX || heads * tiles > INT_MAX) return cudaErrorInvalidValue;
  const int64_t kv_heads = int64_t{p.batch} * p.heads_kv;
  const int64_t kv_bytes = 2 * kv_heads * p.seq_kv * p.head_dim * element_bytes;
  const int64_t half_l2 = std::max(l2_bytes / 2, 1);
  const int64_t sections = std::clamp<int64_t>(ceil_div(kv_bytes, half_l2), 1, std::max<int64_t>(kv_heads, 1));
  const int64_t section = ceil_div(kv_heads, sections) * (p.heads_q / p.heads_kv);
  *schedule = {static_cast<int>(tiles), static_cast<int>(section), static_cast<int>(heads * tiles)};
  return cudaSuccess;
}

// A kernel takes (FlashAttentionParams, FlashAttentionSchedule); each block owns `queries` queries.
using FlashAttentionKernel = void(FlashAttentionParams, FlashAttentionSchedule);

// Shape is the kernel's LaunchShape.
template <typename Shape>
cudaError_t launch_flash_attention(FlashAttentionKernel* kernel, const FlashAttentionParams& p, int queries,
                                   int element_bytes, cudaStream_t stream) {
  FlashAttentionSchedule schedule;
  if (cudaError_t error = make_schedule(p, queries, element_bytes, &schedule); error != cudaSuccess) return error;
  if (schedule.blocks == 0) return cudaSuccess;
  if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               Shape::kDynamicSharedBytes);
      error != cudaSuccess) {
    return error;
  }
  kernel<<<schedule.blocks, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p, schedule);
  return cudaGetLastError();
}

struct FlashAttentionWork {
  int batch, head, head_kv;
  int first_query;
  int first_key;   // the block's queries see keys first_key .. keys - 1 at most; 0 without a window
  int keys;
  int diagonal;    // causal: query i sees keys below i + diagonal + 1
};

template <bool Windowed>
__device__ __forceinline__ FlashAttentionWork work_of_block(const FlashAttentionParams& p,
                                                            const FlashAttentionSchedule& schedule, int block,
                                                            int queries) {
  const int heads = p.batch * p.heads_q;
  const int section_blocks = schedule.heads_per_section * schedule.query_tiles;
  const int section = block / section_blocks;
  const int first_head = section * schedule.heads_per_section;
  const int heads_here = min(schedule.heads_per_section, heads - first_head);
  const int within = block - section * section_blocks;
  const int tile = within / heads_here;
  const int head = first_head + within - tile * heads_here;

  FlashAttentionWork work;
  work.batch = head / p.heads_q;
  work.head = head - work.batch * p.heads_q;
  work.head_kv = work.head / (p.heads_q / p.heads_kv);
  work.first_query = (p.causal ? schedule.query_tiles - 1 - tile : tile) * queries;
  work.diagonal = p.seq_kv - p.seq_q;
  const int last_query = min(p.seq_q - work.first_query, queries) + work.first_query - 1;
  work.keys = p.causal ? max(min(p.seq_kv, last_query + work.diagonal + 1), 0) : p.seq_kv;
  work.first_key = Windowed ? max(work.first_query + work.diagonal + 1 - p.window, 0) : 0;
  return work;
}

template <typename Element>
__device__ __forceinline__ Element* head_pointer(Element* tensor, const FlashAttentionStrides& strides, int batch,
                                                 int head) {
  return tensor + batch * strides.batch + head * strides.head;
}

}  // namespace warpwatch
