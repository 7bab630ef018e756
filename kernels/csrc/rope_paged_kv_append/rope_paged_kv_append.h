// rope_paged_kv_append.h: rope of new keys on their way into the pages of a cache, and their values beside them.
//   row i of k, turned as rope.h says by the angles of its position lengths[b] - seq + i, and row i of v as it is, go to
//   that position; layouts, and what is left out, as paged_kv.h says; k and v themselves stay as they are
//   cos, sin: (positions, head_dim / 2) fp32, rows contiguous, a row a position; or else computed from the position
//   4 * element size * batch * heads_kv * seq * head_dim bytes beside the small tables, where rope and then append move
//   6 of them; 3 FLOP per element of k: memory-bound
#pragma once

#include "paged_kv/paged_kv.h"
#include "rope/rope.h"

namespace warpwatch {

struct RopePagedKvParams {
  PagedKvParams rows;
  const float* cos;  // not read where angles are computed
  const float* sin;
  int64_t cos_stride, sin_stride;  // from one position to the next, in elements
  int head_dim;
  Dtype dtype;
  bool interleaved;
};

// Tables are read where `turns` is null.
void rope_paged_kv_append_cpu(const RopePagedKvParams& p, const RopeTurns* turns);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; allocates nothing, waits for nothing. Any GPU; head_dim / 2 elements are whole 16-byte pieces,
// and every row, of the tables too, starts on a 16-byte boundary.
cudaError_t rope_paged_kv_append_cuda(const RopePagedKvParams& p, const RopeTurns* turns, cudaStream_t stream);

}  // namespace warpwatch
#endif
