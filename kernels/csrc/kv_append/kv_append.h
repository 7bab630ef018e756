// kv_append.h: new keys and values into a cache, in place:
//   k_cache[b, h, positions[b] + t] = k[b, h, t], and v_cache likewise
//   k, v: (batch, heads, tokens, head_dim); caches: (batch, heads, capacity, head_dim); all of one dtype, head_dim
//   contiguous, the other strides free; positions: (batch) int64, or one number for all
//   A token whose place is not in the cache, before its first row or behind its last, is not written, and the others of
//   its sequence are: a GPU cannot ask ahead without waiting for its host. The CPU refuses it before anything is written.
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
  const int64_t* positions;  // null: `position` is every sequence's
  int64_t position;
  KvAppendRows k_strides, v_strides, k_cache_strides, v_cache_strides;
  int64_t batch, heads, tokens, capacity;
  int64_t row_bytes;  // head_dim elements
  int element_bytes;
};

void kv_append_cpu(const KvAppendParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; allocates nothing, waits for nothing.
cudaError_t kv_append_cuda(const KvAppendParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
