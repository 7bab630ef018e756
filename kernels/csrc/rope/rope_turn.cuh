// The rotation itself, of what one thread holds of one head.
#pragma once

#include "primitives/piece.cuh"

namespace warpwatch {

// Angles that one piece needs.
template <class P, bool kInterleaved>
constexpr int kRopeAngles = kInterleaved ? P::kPairs : P::kElements;

// Two pieces of a row, `head_dim / 2` apart. As halves, they are each other's partners, and [0] are their angles;
// interleaved, each holds whole pairs and has its own: [1] is for the second.
template <bool kInterleaved, class P, int kAngles>
__device__ __forceinline__ void turn_pieces(P& first, P& second, const float (&cos)[2][kAngles],
                                            const float (&sin)[2][kAngles]) {
  static_assert(kAngles == kRopeAngles<P, kInterleaved>);
#pragma unroll
  for (int i = 0; i < P::kPairs; ++i) {
    const float2 a = widen(first.pairs[i]);
    const float2 b = widen(second.pairs[i]);
    if constexpr (kInterleaved) {
      narrow({a.x * cos[0][i] - a.y * sin[0][i], a.y * cos[0][i] + a.x * sin[0][i]}, first.pairs[i]);
      narrow({b.x * cos[1][i] - b.y * sin[1][i], b.y * cos[1][i] + b.x * sin[1][i]}, second.pairs[i]);
    } else {
      const float2 c = {cos[0][2 * i], cos[0][2 * i + 1]};
      const float2 s = {sin[0][2 * i], sin[0][2 * i + 1]};
      narrow({a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y}, first.pairs[i]);
      narrow({b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y}, second.pairs[i]);
    }
  }
}

}  // namespace warpwatch
