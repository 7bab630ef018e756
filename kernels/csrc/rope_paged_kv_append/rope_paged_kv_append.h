// rope_paged_kv_append.h: rotates new keys (rope.h) and appends them, with their values, to the pages of a cache (paged_kv.h).
//   Row i of k, rotated by the angles of its position lengths[b] - seq + i, and row i of v, unchanged, are stored at that
//   position.
//   Layouts and skipped positions: paged_kv.h. k and v themselves are not modified.
//   cos, sin: (positions, head_dim / 2) fp32, rows contiguous, one row per position; or computed from the position
//   4 * element size * batch * heads_kv * seq * head_dim bytes plus the small tables, where rope followed by append moves 6
//   instead of 4;
//   3 FLOP per element of k: memory-bound
#pragma once

#include "paged_kv/paged_kv.h"
#include "rope/rope.h"

namespace warpwatch {

struct RopePagedKvParams {
  PagedKvParams rows;
  const float* cos;  // not read if angles are computed
  const float* sin;
  int64_t cos_stride, sin_stride;  // between positions, in elements
  int head_dim;
  Dtype dtype;
  bool interleaved;
};

// Reads the tables if `turns` is null.
void rope_paged_kv_append_cpu(const RopePagedKvParams& p, const RopeTurns* turns);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation. Any GPU; head_dim / 2 elements are a multiple of 16 bytes, and every
// row, of the tables too, is 16-byte aligned.
cudaError_t rope_paged_kv_append_cuda(const RopePagedKvParams& p, const RopeTurns* turns, cudaStream_t stream);

}  // namespace warpwatch
#endif
