// Causal mask and online softmax, on score fragments in the C layout of primitives/mma.cuh.
//
// scores[r][n] is the 16 x 8 fragment of query tile r and key tile n of the warp. With g = lane / 4 and t = lane % 4, a lane
// holds elements c = 0..3 at query 16 r + g + 8 (c / 2), key 8 n + 2 t + c % 2. The four lanes of a quad share their rows, so
// two shuffles complete a row's maximum or sum.
#pragma once

#include <cmath>

namespace warpwatch {

constexpr float kLog2E = 1.4426950408889634f;

// 2^x to 2 ulp (ex2.approx); 2^-inf is 0.
__device__ __forceinline__ float exp2_approximate(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);  // on the CPU, for the tests of this file's arithmetic
#endif
}

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Query i sees the keys below this bound. It grows with i, so the warp's first query bounds what all of its queries see.
__device__ __forceinline__ int keys_seen(int query, int seq_kv, int diagonal, bool causal) {
  return causal ? min(seq_kv, query + diagonal + 1) : seq_kv;
}

// Query i sees no key below this bound.
__device__ __forceinline__ int first_key_seen(int query, int diagonal, int window) {
  return query + diagonal + 1 - window;
}

// Sets masked scores to -inf. first_query and first_key belong to element (0, 0) of the warp's fragments.
template <bool Windowed, int RowTiles, int KeyTiles>
__device__ __forceinline__ void mask_scores(float (&scores)[RowTiles][KeyTiles][4], int first_query, int first_key,
                                            int seq_kv, int diagonal, bool causal, int window) {
  const bool all_old_seen = !Windowed || first_key >= first_key_seen(first_query + 16 * RowTiles - 1, diagonal, window);
  if (first_key + 8 * KeyTiles <= keys_seen(first_query, seq_kv, diagonal, causal) && all_old_seen) return;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + 16 * r + lane / 4 + 8 * half;
      // Relative to this lane's first key.
      const int seen = keys_seen(query, seq_kv, diagonal, causal) - first_key - 2 * (lane % 4);
#pragma unroll
      for (int n = 0; n < KeyTiles; ++n) {
        if (8 * n >= seen) scores[r][n][2 * half] = -INFINITY;
        if (8 * n + 1 >= seen) scores[r][n][2 * half + 1] = -INFINITY;
      }
      if constexpr (Windowed) {
        const int hidden = first_key_seen(query, diagonal, window) - first_key - 2 * (lane % 4);
#pragma unroll
        for (int n = 0; n < KeyTiles; ++n) {
          if (8 * n < hidden) scores[r][n][2 * half] = -INFINITY;
          if (8 * n + 1 < hidden) scores[r][n][2 * half + 1] = -INFINITY;
        }
      }
    }
  }
}

// The same with one argument, for tiles whose values past the last key are zeros. The fragment's first
// query sees the keys below `limit`; under the causal mask each later query sees one more, and rows past
// the last query may then see keys past the end.
template <int RowTiles, int KeyTiles>
__device__ __forceinline__ void mask_seen(float (&scores)[RowTiles][KeyTiles][4], int limit, int first_key, bool causal,
                                          int window) {
  const bool all_old_seen = first_key >= limit + 16 * RowTiles - 1 - window;
  if (first_key + 8 * KeyTiles <= limit && all_old_seen) return;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Relative to this lane's first key.
      const int seen = limit + (causal ? 16 * r + lane / 4 + 8 * half : 0) - first_key - 2 * (lane % 4);
      const int hidden = seen - window;
#pragma unroll
      for (int n = 0; n < KeyTiles; ++n) {
        if (8 * n >= seen || 8 * n < hidden) scores[r][n][2 * half] = -INFINITY;
        if (8 * n + 1 >= seen || 8 * n + 1 < hidden) scores[r][n][2 * half + 1] = -INFINITY;
      }
    }
  }
}

// The exponent of 2 of a row's scores as a line: slope * score - base, one FMA per score.
struct ExponentLine {
  float slope;
  float base;
};

// Exponents of unscaled scores: (score - maximum) * scale_log2, computed as slope * score - base with base = the maximum's
// product, rounded to fp32. The rounding error, `excess`, becomes the exponent of the maximum itself. It is a common factor of
// a row's weights and cancels in the normalization, as long as the weights fit fp16. Up to kLargestBase, excess is at most half
// an ulp of 2^27, i.e. 8. Beyond it, the next smaller score is an ulp below and has an exact weight of at most 2^-16; such a
// row uses a power of two as slope, whose products are exact: the maximum gets weight 1, an ulp below it at most 2^-64.
struct RawScores {
  static constexpr float kLargestBase = 268435456.0f;  // 2^28
  float scale_log2;

  __device__ __forceinline__ ExponentLine line(float top) const {
    // 2^(30 - exponent of top): its product with top is at least 2^30.
    const float power = __uint_as_float((284u << 23) - (__float_as_uint(top) & 0x7f800000u));
    const float slope = fabsf(__fmul_rn(top, scale_log2)) < kLargestBase ? scale_log2 : power;
    // A row that has seen no key: the weights are 2^-inf, not 2^(-inf + inf).
    return {slope, top == -INFINITY ? 0.0f : __fmul_rn(top, slope)};
  }
  __device__ __forceinline__ static float exponent(float score, ExponentLine line) {
    return fmaf(score, line.slope, -line.base);
  }

  // log2 of the factor that rescales sums relative to the maximum `from` to the maximum `to`: exactly 0 if both are equal, -inf
  // if nothing has been summed.
  __device__ __forceinline__ float rescaling(float from, float to) const { return exact_rescaling(from, to) + excess(to); }
  // The same, for sums in which the maximum has weight 1.
  __device__ __forceinline__ float exact_rescaling(float from, float to) const {
    return fmaf(from - (to == -INFINITY ? 0.0f : to), scale_log2, -excess(from));
  }
  // log of the row's sum of exp(scale score), from the sum relative to the maximum `top`; -inf for a row that saw no key. In
  // fp64: beside a large maximum, fp32 has no bits left for the sum.
  __device__ __forceinline__ double log_sum_exp(float top, float scale, float sum) const {
    constexpr float kLn2 = 0.6931471805599453f;
    return fma(static_cast<double>(top), static_cast<double>(scale), static_cast<double>(fmaf(-kLn2, excess(top), logf(sum))));
  }

 private:
  __device__ __forceinline__ float excess(float top) const { return top == -INFINITY ? 0.0f : exponent(top, line(top)); }
};

// Exponents of scores that are already scaled and biased. The bias may be the lowest number of its dtype: many models mask keys
// with -3.4e38. The maximum is subtracted before anything is multiplied, so a query that sees only such keys averages over
// them, as the formula says, and -inf - -inf never occurs.
struct BiasedScores {
  __device__ __forceinline__ static ExponentLine line(float top) { return {1.0f, top == -INFINITY ? 0.0f : top}; }
  __device__ __forceinline__ static float exponent(float score, ExponentLine line) { return (score - line.base) * kLog2E; }
  __device__ __forceinline__ static float rescaling(float from, float to) { return exponent(from, line(to)); }
  __device__ __forceinline__ static double log_sum_exp(float top, float, float sum) {
    return static_cast<double>(top) + static_cast<double>(logf(sum));
  }
};

template <typename Params>
__device__ __forceinline__ auto exponents_of(const Params& p) {
  if constexpr (requires { p.bias; }) return BiasedScores{};
  else return RawScores{p.scale * kLog2E};
}

// Running maximum and sum of each of the lane's rows. The maximum is that of the raw scores, equal in all lanes of a quad; the
// sum covers this lane's weights only, until `normalizer` reduces it over the quad.
template <int RowTiles>
struct OnlineSoftmax {
  float row_max[RowTiles][2];
  float row_sum[RowTiles][2];

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      row_max[r][0] = row_max[r][1] = -INFINITY;
      row_sum[r][0] = row_sum[r][1] = 0.0f;
    }
  }

  // Updates the maximum of a row; returns the factor that rescales what was summed under the old one.
  template <typename Exponents>
  __device__ __forceinline__ float raise(int r, int half, float top, const Exponents& exponents) {
    const float factor = exp2_approximate(exponents.rescaling(row_max[r][half], top));
    row_max[r][half] = top;
    row_sum[r][half] *= factor;
    return factor;
  }

  // Replaces scores by weights 2^(exponent(score) - exponent(maximum)) and rescales what was summed under the old maximum.
  template <int KeyTiles, int OutTiles, typename Exponents>
  __device__ __forceinline__ void step(float (&scores)[RowTiles][KeyTiles][4], float (&out)[RowTiles][OutTiles][4],
                                       const Exponents& exponents) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      float top[2];
      bool rose = false;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        top[half] = row_max[r][half];
#pragma unroll
        for (int n = 0; n < KeyTiles; ++n) {
          top[half] = fmaxf(top[half], fmaxf(scores[r][n][2 * half], scores[r][n][2 * half + 1]));
        }
        top[half] = quad_max(top[half]);
        rose = rose || top[half] != row_max[r][half];
      }
      // After the first tiles a maximum rarely rises. If none of the warp's rows has a new one, all factors are 1: skip.
      if (__any_sync(0xffffffffu, rose)) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float factor = raise(r, half, top[half], exponents);
#pragma unroll
          for (int n = 0; n < OutTiles; ++n) {
            out[r][n][2 * half] *= factor;
            out[r][n][2 * half + 1] *= factor;
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = row_sum[r][half];
        const ExponentLine line = exponents.line(row_max[r][half]);
#pragma unroll
        for (int n = 0; n < KeyTiles; ++n) {
#pragma unroll
          for (int c = 2 * half; c < 2 * half + 2; ++c) {
            scores[r][n][c] = exp2_approximate(exponents.exponent(scores[r][n][c], line));
            sum += scores[r][n][c];
          }
        }
        row_sum[r][half] = sum;
      }
    }
  }

  // The final factor of the row's output; 0 for a row that saw no key.
  __device__ __forceinline__ float normalizer(int r, int half) const {
    const float sum = quad_sum(row_sum[r][half]);
    return sum == 0.0f ? 0.0f : __frcp_rn(sum);
  }

  template <typename Exponents>
  __device__ __forceinline__ double log_sum_exp(int r, int half, float scale, const Exponents& exponents) const {
    return exponents.log_sum_exp(row_max[r][half], scale, quad_sum(row_sum[r][half]));
  }
};

}  // namespace warpwatch
