// rope.h: rotary position embedding. Each pair (a, b) of a row turns by its position's angle:
//   out.a = a * cos[s, i] - b * sin[s, i]
//   out.b = b * cos[s, i] + a * sin[s, i]
// A pair is (i, i + head_dim / 2), the halves of GPT-NeoX, or (2 i, 2 i + 1), the neighbours of GPT-J.
//   x, out: (batch, heads, seq, head_dim), head_dim contiguous, the other strides free; out may be x itself
//   cos, sin: (seq, head_dim / 2) fp32, rows contiguous; or else computed from positions: (batch) int64, the position
//   of each sequence's first row
//   2 * element size * batch * heads * seq * head_dim bytes (one read, one write) beside the small tables, and
//   3 FLOP per element: memory-bound
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct RopeStrides {
  int64_t batch, head, seq;  // in elements
};

constexpr int kRopeMostFrequencies = 256;

// How far each pair turns from one position to the next, in 2^-64 turns. The angle of a position is the wrapping product
// position * of[i]: exact but for whole turns, at any position. In fp32, position * frequency is off by 4e-3 rad at
// 100000.
struct RopeTurns {
  uint64_t of[kRopeMostFrequencies];
};

struct RopeParams {
  const void* x;
  void* out;
  const float* cos;  // null where they are computed
  const float* sin;
  const int64_t* positions;  // null where there are tables
  RopeStrides x_strides, out_strides;
  int64_t cos_stride, sin_stride;  // from one position to the next, in elements
  int64_t batch, heads, seq;
  int head_dim;
  Dtype dtype;
  bool interleaved;
};

// base^(-i / (head_dim / 2)) radians a position, for i below head_dim / 2, which is 256 at most; base is 1 at least.
RopeTurns rope_turns(double base, int head_dim);

// `turns` is read where params have positions.
void rope_cpu(const RopeParams& p, const RopeTurns* turns);

// On the CPU, one position of one head. Computes in fp32; reads a pair before it writes it, since out may be x.
template <class Element>
void turn_row(const Element* x, const float* cos, const float* sin, Element* out, int half, bool interleaved) {
  const int step = interleaved ? 2 : 1;        // from one pair's first element to the next pair's
  const int partner = interleaved ? 1 : half;  // from a pair's first element to its second
  for (int i = 0; i < half; ++i) {
    const float a = x[i * step];
    const float b = x[i * step + partner];
    out[i * step] = static_cast<Element>(a * cos[i] - b * sin[i]);
    out[i * step + partner] = static_cast<Element>(b * cos[i] + a * sin[i]);
  }
}

// cos and sin of `half` pairs at a position.
void compute_rope_angles(const RopeTurns& turns, int64_t position, int half, float* cos, float* sin);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; allocates nothing, waits for nothing.
cudaError_t rope_cuda(const RopeParams& p, const RopeTurns* turns, cudaStream_t stream);

}  // namespace warpwatch
#endif
