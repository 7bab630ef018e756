// The online softmax for asynchronous products: weights packed as the next product's operand, and a step in two halves.
#pragma once

#include <cstdint>

#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/mma.cuh"

namespace warpwatch {

// Weights of one row tile as A operands, 16 keys each.
template <int kKeyTiles>
struct PackedWeights {
  uint32_t a[kKeyTiles / 2][4];

  template <typename Element>
  __device__ __forceinline__ void take(const float (&weights)[1][kKeyTiles][4]) {
#pragma unroll
    for (int n = 0; n < kKeyTiles / 2; ++n) {
      const float(&low)[4] = weights[0][2 * n];
      const float(&high)[4] = weights[0][2 * n + 1];
      a[n][0] = pack<Element>(low[0], low[1]);
      a[n][1] = pack<Element>(low[2], low[3]);
      a[n][2] = pack<Element>(high[0], high[1]);
      a[n][3] = pack<Element>(high[2], high[3]);
    }
  }

  // Call after a wait: until then wgmma reads the weights, which the compiler does not know.
  __device__ __forceinline__ void fence_operand() {
#pragma unroll
    for (int n = 0; n < kKeyTiles / 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(a[n][e])::"memory");
    }
  }
};

// The step of OnlineSoftmax in two halves: the weights are computed while the previous product with the values may still run,
// the output is rescaled after it.
//
// Lazy rescaling: a maximum that rose by at most kSmallRise, as an exponent of 2, keeps its old value, so that most tiles after
// the first rescale nothing and the lanes of a row exchange nothing. Weights are then at most 2^kSmallRise times the bound of
// RawScores, 2^14, which fp16 can represent. From RawScores::kLargestBase on, no rise is that small. Evidence: one H100, unit
// normal inputs, us, without / with: 32 heads of 128, causal, 2048 keys 71.1 / 67.9; 8 x 12 heads of 64, 1024 keys 49.3 / 42.4.
struct SplitSoftmax : OnlineSoftmax<1> {
  static constexpr float kSmallRise = 6.0f;
  ExponentLine line[2] = {{1.0f, 0.0f}, {1.0f, 0.0f}};  // of row_max; until a row sees a key, any that leaves -inf as it is
  float factor[2];                                      // of what was summed before, where exp_and_sum() is true

  static __device__ __forceinline__ float scale_log2(const RawScores& exponents) { return exponents.scale_log2; }
  static __device__ __forceinline__ float scale_log2(const BiasedScores&) { return kLog2E; }

  // Replaces scores by weights; true if the warp's output must be rescaled.
  template <int kKeyTiles, typename Exponents>
  __device__ __forceinline__ bool exp_and_sum(float (&scores)[1][kKeyTiles][4], const Exponents& exponents) {
    float top[2];  // of the lane
    bool rose = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float tops[2] = {row_max[0][half], scores[0][0][2 * half]};
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        tops[0] = fmaxf(tops[0], scores[0][n][2 * half]);
        tops[1] = fmaxf(tops[1], scores[0][n][2 * half + 1]);
      }
      top[half] = fmaxf(tops[0], tops[1]);
      // Of two that are -inf, the difference is no number, which is no rise.
      rose = rose || (top[half] - row_max[0][half]) * scale_log2(exponents) > kSmallRise;
    }
    const bool rescales = __any_sync(0xffffffffu, rose);
    if (rescales) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factor[half] = raise(0, half, quad_max(top[half]), exponents);
        line[half] = exponents.line(row_max[0][half]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sums[2] = {row_sum[0][half], 0.0f};
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[0][n][2 * half + c];
          score = exp2_approximate(exponents.exponent(score, line[half]));
          sums[c] += score;
        }
      }
      row_sum[0][half] = sums[0] + sums[1];
    }
    return rescales;
  }

  template <int kOutTiles>
  __device__ __forceinline__ void rescale(float (&out)[1][kOutTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kOutTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) out[0][n][c] *= factor[c / 2];
    }
  }
};

}  // namespace warpwatch
