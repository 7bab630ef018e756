// kv_append.h: appends new keys and values to a cache, in place:
//   k_cache[b, h, positions[b] + t] = k[b, h, t], and v_cache likewise
//   k, v: (batch, heads, tokens, head_dim); caches: (batch, heads, capacity, head_dim); all of one dtype, head_dim contiguous,
//   other
//   strides free; positions: (batch) int64, or one number for all sequences
//   A token whose position is outside the cache is skipped; the sequence's other tokens are written. (A GPU cannot report it
//   without
//   a synchronisation. The CPU throws before anything is written.)
//   4 * element size * batch * heads * tokens * head_dim bytes (k and v read and written), no FLOP: memory-bound
#pragma once

#include <cstdint>

namespace warpwatch {

struct KvAppendRows {
  int64_t batch, head, token;  // strides, in bytes
};

struct KvAppendParams {
  const char* k;
  const char* v;
  char* k_cache;
  char* v_cache;
  const int64_t* positions;  // null: `position` applies to every sequence
  int64_t position;
  KvAppendRows k_strides, v_strides, k_cache_strides, v_cache_strides;
  int64_t batch, heads, tokens, capacity;
  int64_t row_bytes;  // bytes of head_dim elements
  int element_bytes;
};

void kv_append_cpu(const KvAppendParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation.
cudaError_t kv_append_cuda(const KvAppendParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
