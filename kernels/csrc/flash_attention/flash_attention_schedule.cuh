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
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "flash_attention/flash_attention.h"
#include "primitives/attributes.h"

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
  int l2_bytes = 0;
  if (cudaError_t error = device_attribute(cudaDevAttrL2CacheSize, l2_bytes); error != cudaSuccess) return error;
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

// Params is FlashAttentionParams, or what is derived of it. A kernel takes (Params, FlashAttentionSchedule); each block owns
// `queries` queries.
template <typename Params>
using FlashAttentionKernel = void(Params, FlashAttentionSchedule);

template <typename Params>
inline constexpr bool kPacked = std::is_same_v<Params, FlashAttentionPackedParams>;
template <typename Params>
inline constexpr bool kBiased = std::is_same_v<Params, FlashAttentionBiasedParams>;

// Most kernels are built with a window only. Without one, this one holds every key.
constexpr int kEveryKey = 1 << 30;
template <typename Params>
Params with_window(Params p) {
  if (p.window == 0) p.window = kEveryKey;
  return p;
}

// Shape is the kernel's LaunchShape.
template <typename Shape, typename Params>
cudaError_t launch_flash_attention(FlashAttentionKernel<Params>* kernel, const Params& p, int queries,
                                   int element_bytes, cudaStream_t stream) {
  FlashAttentionSchedule schedule;
  if (cudaError_t error = make_schedule(p, queries, element_bytes, &schedule); error != cudaSuccess) return error;
  if (schedule.blocks == 0) return cudaSuccess;
  if (cudaError_t error = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
      error != cudaSuccess) {
    return error;
  }
  kernel<<<schedule.blocks, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p, schedule);
  return cudaGetLastError();
}

struct alignas(16) FlashAttentionWork {
  int batch, head, head_kv;
  int query_row, key_row;  // where a packed sequence begins; else 0
  int seq_q, seq_kv;       // of the sequence; seq_q no more than max_seqlen_q
  int first_query;         // of packed sequences it may lie behind the last one: then there is nothing to do
  int first_key;   // the block's queries see keys first_key .. keys - 1 at most; 0 without a window
  int keys;
  int diagonal;    // causal: query i sees keys below i + diagonal + 1
};

template <bool Windowed, typename Params>
__device__ __forceinline__ FlashAttentionWork work_of_block(const Params& p, const FlashAttentionSchedule& schedule,
                                                            int block, int queries) {
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
  if constexpr (kPacked<Params>) {
    work.query_row = p.cu_seqlens_q[work.batch];
    work.key_row = p.cu_seqlens_kv[work.batch];
    const int queries_there = p.cu_seqlens_q[work.batch + 1] - work.query_row;
    work.seq_q = min(queries_there, p.seq_q);
    work.seq_kv = p.cu_seqlens_kv[work.batch + 1] - work.key_row;
    work.diagonal = work.seq_kv - queries_there;
  } else {
    work.query_row = work.key_row = 0;
    work.seq_q = p.seq_q;
    work.seq_kv = p.seq_kv;
    work.diagonal = work.seq_kv - work.seq_q;
  }
  work.first_query = (p.causal ? schedule.query_tiles - 1 - tile : tile) * queries;
  const int last_query = min(work.seq_q - work.first_query, queries) + work.first_query - 1;
  work.keys = p.causal ? max(min(work.seq_kv, last_query + work.diagonal + 1), 0) : work.seq_kv;
  work.first_key = Windowed ? max(work.first_query + work.diagonal + 1 - p.window, 0) : 0;
  return work;
}

template <typename Element>
__device__ __forceinline__ Element* head_pointer(Element* tensor, const FlashAttentionStrides& strides, int batch,
                                                 int head) {
  return tensor + batch * strides.batch + head * strides.head;
}

// The first row of the work's sequence: of q and out, and of k and v.
template <typename Element>
__device__ __forceinline__ Element* query_rows(Element* tensor, const FlashAttentionStrides& strides,
                                               const FlashAttentionWork& work) {
  return head_pointer(tensor, strides, work.batch, work.head) + work.query_row * strides.row;
}
template <typename Element>
__device__ __forceinline__ Element* key_rows(Element* tensor, const FlashAttentionStrides& strides,
                                             const FlashAttentionWork& work) {
  return head_pointer(tensor, strides, work.batch, work.head_kv) + work.key_row * strides.row;
}
// The bias of one query, in fp32.
__device__ __forceinline__ const float* bias_row(const FlashAttentionBiasedParams& p, const FlashAttentionWork& work,
                                                 int query) {
  return head_pointer(static_cast<const float*>(p.bias), p.bias_strides, work.batch, work.head) +
         query * p.bias_strides.row;
}
// Rows of packed queries that no block works out become zeros, their log-sum-exp -inf: those of a sequence behind the first
// max_seqlen_q, and those behind the last sequence. The blocks of a sequence and head in `schedule` share them. The
// block's first `threads` threads call it.
template <typename Element>
__device__ __forceinline__ void zero_uncovered_rows(const FlashAttentionPackedParams& p,
                                                    const FlashAttentionSchedule& schedule,
                                                    const FlashAttentionWork& work, int queries,
                                                    int threads = blockDim.x) {
  const bool is_last = work.batch == p.batch - 1;
  const int end = (is_last ? p.total_q : p.cu_seqlens_q[work.batch + 1]) - work.query_row;
  if (end <= work.seq_q) return;
  const int chunks = p.head_dim * static_cast<int>(sizeof(Element)) / 16;  // of a row
  Element* const out = head_pointer(static_cast<Element*>(p.out), p.out_strides, 0, work.head);
  for (int64_t first = int64_t{work.seq_q} + work.first_query; first < end; first += schedule.query_tiles * queries) {
    const int rows = static_cast<int>(min(int64_t{queries}, end - first));
    for (int i = threadIdx.x; i < rows * chunks; i += threads) {
      const int64_t row = work.query_row + first + i / chunks;
      reinterpret_cast<uint4*>(out + row * p.out_strides.row)[i % chunks] = make_uint4(0, 0, 0, 0);
      if (p.lse != nullptr && i % chunks == 0) p.lse[int64_t{work.head} * p.total_q + row] = -INFINITY;
    }
  }
}

template <typename Params>
__device__ __forceinline__ double* lse_rows(const Params& p, const FlashAttentionWork& work) {
  if constexpr (kPacked<Params>) return p.lse + int64_t{work.head} * p.total_q + work.query_row;
  return p.lse + (int64_t{work.batch} * p.heads_q + work.head) * p.seq_q;
}

}  // namespace warpwatch
