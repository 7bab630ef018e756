// rope.h: rotary position embedding. Rotates each pair (a, b) of a row by its position's angle:
//   out.a = a * cos[s, i] - b * sin[s, i]
//   out.b = b * cos[s, i] + a * sin[s, i]
// A pair is (i, i + head_dim / 2) (halves, as in GPT-NeoX) or (2 i, 2 i + 1) (interleaved, as in GPT-J).
//   x, out: (batch, heads, seq, head_dim), head_dim contiguous, other strides free; out may be x itself
//   cos, sin: (seq, head_dim / 2) fp32, rows contiguous; or computed from positions: (batch) int64, the position of each
//     sequence's first row
//   2 * element size * batch * heads * seq * head_dim bytes (one read, one write) plus the small
//   tables; 3 FLOP per element: memory-bound
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct RopeStrides {
  int64_t batch, head, seq;  // in elements
};

constexpr int kRopeMostFrequencies = 256;

// Frequencies in fixed point: the rotation per position, in units of 2^-64 turns. A position's angle is the wrapping product
// position * of[i], exact modulo whole turns at any position. In fp32, position * frequency would be off by 4e-3 rad at 100000.
struct RopeTurns {
  uint64_t of[kRopeMostFrequencies];
};

struct RopeParams {
  const void* x;
  void* out;
  const float* cos;  // null if angles are computed
  const float* sin;
  const int64_t* positions;  // null if there are tables
  RopeStrides x_strides, out_strides;
  int64_t cos_stride, sin_stride;  // between positions, in elements
  int64_t batch, heads, seq;
  int head_dim;
  Dtype dtype;
  bool interleaved;
};

// base^(-i / (head_dim / 2)) radians per position, for i < head_dim / 2 <= 256; base >= 1.
RopeTurns rope_turns(double base, int head_dim);

// `turns` is read if the params have positions.
void rope_cpu(const RopeParams& p, const RopeTurns* turns);

// One position of one head, on the CPU. Computes in fp32; reads a pair before it writes it, since out may be x.
template <class Element>
void turn_row(const Element* x, const float* cos, const float* sin, Element* out, int half, bool interleaved) {
  const int step = interleaved ? 2 : 1;        // between the first elements of consecutive pairs
  const int partner = interleaved ? 1 : half;  // between the two elements of a pair
  for (int i = 0; i < half; ++i) {
    const float a = x[i * step];
    const float b = x[i * step + partner];
    out[i * step] = static_cast<Element>(a * cos[i] - b * sin[i]);
    out[i * step + partner] = static_cast<Element>(b * cos[i] + a * sin[i]);
  }
}

// Computes cos and sin of `half` pairs at a position.
void compute_rope_angles(const RopeTurns& turns, int64_t position, int half, float* cos, float* sin);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; allocates nothing, waits for nothing.
cudaError_t rope_cuda(const RopeParams& p, const RopeTurns* turns, cudaStream_t stream);

}  // namespace warpwatch
#endif
