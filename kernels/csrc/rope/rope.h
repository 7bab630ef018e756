// rope.h: rotary position embedding. Each pair (a, b) of a row turns by its position's angle:
//   out.a = a * cos[s, i] - b * sin[s, i]
//   out.b = b * cos[s, i] + a * sin[s, i]
// A pair is (i, i + head_dim / 2), the halves of GPT-NeoX, or (2 i, 2 i + 1), the neighbours of GPT-J.
//   x: (batch, heads, seq, head_dim), head_dim contiguous, the other strides free
//   out: the same, contiguous; cos, sin: (seq, head_dim / 2) fp32, rows contiguous
//   2 * element size * batch * heads * seq * head_dim bytes (one read, one write) beside the small tables, and
//   3 FLOP per element: memory-bound
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct RopeParams {
  const void* x;
  const float* cos;
  const float* sin;
  void* out;
  int64_t batch_stride, head_stride, seq_stride;  // of x, in elements
  int64_t cos_stride, sin_stride;                 // from one position to the next, in elements
  int64_t batch, heads, seq;
  int head_dim;
  Dtype dtype;
  bool interleaved;
};

void rope_cpu(const RopeParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; allocates nothing, waits for nothing.
cudaError_t rope_cuda(const RopeParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
