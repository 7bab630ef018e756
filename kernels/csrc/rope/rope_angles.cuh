// Sources of cos and sin: tables, or computed from the position; and the rotation of what a thread holds.
#pragma once

#include <cstdint>

#include "primitives/kept_load.cuh"
#include "primitives/piece.cuh"
#include "rope/rope.h"
#include "rope/rope_tiles.h"

namespace warpwatch {

// The rotation of one thread's pieces of one head.

// Angles per piece.
template <class P, bool kInterleaved>
constexpr int kRopeAngles = kInterleaved ? P::kPairs : P::kElements;

// Rotates two pieces of a row, `head_dim / 2` apart. Half-split: they are each other's partners, and [0] are their angles.
// Interleaved: each holds whole pairs and has its own angles, [1] for the second.
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

template <bool kKept, class Floats>
__device__ inline Floats load_of_table(const float* from) {
  const Floats* at = reinterpret_cast<const Floats*>(from);
  if constexpr (kKept) return load_kept(at);
  return __ldg(at);
}

template <bool kKept, int kCount>
__device__ inline void load_floats(const float* from, float (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    if constexpr (kCount >= 4) {
      *reinterpret_cast<float4*>(&to[i]) = load_of_table<kKept, float4>(from + i);
    } else if constexpr (kCount == 2) {
      *reinterpret_cast<float2*>(&to[i]) = load_of_table<kKept, float2>(from + i);
    } else {
      to[i] = load_of_table<kKept, float>(from + i);
    }
  }
}

// Angles from tables. Stride: int32_t in kernels with short parameters. kKept: loads with evict_last, for few rows, whose table
// is next read by the next layer; larger tables are re-read within the call.
template <class Stride, bool kKept = false>
struct TableAngles {
  static constexpr bool kComputed = false;
  const float* cos;
  const float* sin;
  Stride cos_stride, sin_stride;

  __device__ void prepare(int) const {}

  // Loads the angles of kCount neighbouring pairs from `first` on, from the table's row `position`.
  template <int kCount>
  __device__ void at(int64_t position, int first, float (&c)[kCount], float (&s)[kCount]) const {
    load_floats<kKept>(cos + position * cos_stride + first, c);
    load_floats<kKept>(sin + position * sin_stride + first, s);
  }

  template <int kCount>
  __device__ void get(int64_t, int64_t seq, int first, float (&c)[kCount], float (&s)[kCount]) const {
    at(seq, first, c, s);
  }
};

struct ComputedAngles {
  static constexpr bool kComputed = true;

  const int64_t* positions;  // of each sequence's first row; read by `get` only
  RopeTurns turns;

  // In shared memory, threads read different frequencies in parallel; the constant bank
  // of kernel parameters would serialize them.
  __device__ static uint64_t* shared_turns() {
    __shared__ uint64_t shared[kRopeMostFrequencies];
    return shared;
  }

  // All threads of the block must call it.
  __device__ void prepare(int frequencies) const {
    for (int i = threadIdx.x; i < frequencies; i += blockDim.x) shared_turns()[i] = turns.of[i];
    __syncthreads();
  }

  template <int kCount>
  __device__ void at(int64_t position, int first, float (&c)[kCount], float (&s)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      // The upper 32 bits of the angle as signed half turns in units of 2^-31: within
      // 2^-25 of the angle after conversion to fp32.
      const auto turned = static_cast<int32_t>(static_cast<uint64_t>(position) * shared_turns()[first + i] >> 32);
      sincospif(static_cast<float>(turned) * 0x1p-31f, &s[i], &c[i]);
    }
  }

  template <int kCount>
  __device__ void get(int64_t batch, int64_t seq, int first, float (&c)[kCount], float (&s)[kCount]) const {
    at(positions[batch] + seq, first, c, s);
  }

  // For two lanes of a warp, `apart` from each other, that need the same angles: each computes half. All lanes must call it.
  template <int kCount>
  __device__ void get_with_partner(int64_t batch, int64_t seq, int first, int apart, bool second, float (&c)[kCount],
                                   float (&s)[kCount]) const {
    constexpr int kHalf = kCount / 2;
    float own_cos[kHalf], own_sin[kHalf];
    get(batch, seq, second ? first + kHalf : first, own_cos, own_sin);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float partner_cos = __shfl_xor_sync(0xffffffffu, own_cos[i], apart);
      const float partner_sin = __shfl_xor_sync(0xffffffffu, own_sin[i], apart);
      c[i] = second ? partner_cos : own_cos[i];
      s[i] = second ? partner_sin : own_sin[i];
      c[i + kHalf] = second ? own_cos[i] : partner_cos;
      s[i + kHalf] = second ? own_sin[i] : partner_sin;
    }
  }
};

// Table angles with 32-bit strides, if they fit.
inline bool has_short_strides(const TableAngles<int64_t>& angles) {
  return angles.cos_stride <= INT32_MAX && angles.cos_stride >= INT32_MIN && angles.sin_stride <= INT32_MAX &&
         angles.sin_stride >= INT32_MIN;
}
inline bool has_short_strides(const ComputedAngles&) { return true; }

template <bool kKept>
TableAngles<int32_t, kKept> short_strides(const TableAngles<int64_t>& angles) {
  return {angles.cos, angles.sin, static_cast<int32_t>(angles.cos_stride), static_cast<int32_t>(angles.sin_stride)};
}
template <bool>
const ComputedAngles& short_strides(const ComputedAngles& angles) {
  return angles;
}

}  // namespace warpwatch
