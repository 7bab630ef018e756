// What turns one row on the CPU.
#pragma once

#include "rope/rope.h"

namespace warpwatch {

// One position of one head. Computes in fp32; reads a pair before it writes it, for out may be x.
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
