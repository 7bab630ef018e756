// What the sums' kernels have in common: how elements come in, and how a sum goes out.
#pragma once

#include "primitives/piece.cuh"
#include "reduce_sum/reduce_sum.h"

namespace warpwatch {
namespace {

// What one load brings: a piece, or a single element where pieces do not fit; fp32 as soon as it is here.
template <class Element, bool kWide, bool kPastL1 = true>
struct Load {
  static constexpr int kElements = kWide ? Piece<Element>::kElements : 1;

  Piece<Element> piece;
  Element single;

  __device__ void get(const Element* from, bool live) {
    if constexpr (kWide) {
      piece.zero();
      if (!live) return;
      if constexpr (kPastL1) {
        piece.load_past_l1(from);
      } else {
        piece.load_once(from);
      }
    } else {
      from_float(0.0f, single);
      if (live) single = *from;
    }
  }
  __device__ void take(const Load& other) {
    piece.bits = other.piece.bits;
    single = other.single;
  }
  __device__ void add_to(float (&sums)[kElements]) const {
    if constexpr (kWide) {
#pragma unroll
      for (int j = 0; j < Piece<Element>::kPairs; ++j) {
        const float2 pair = widen(piece.pairs[j]);
        sums[2 * j] += pair.x;
        sums[2 * j + 1] += pair.y;
      }
    } else {
      sums[0] += to_float(single);
    }
  }
};

__device__ void store_sum(const ReduceSumParams& p, int64_t at, float sum) {
  if (p.out_dtype == Dtype::kFloat32) {
    static_cast<float*>(p.out)[at] = sum;
  } else if (p.out_dtype == Dtype::kFloat16) {
    from_float(sum, static_cast<__half*>(p.out)[at]);
  } else {
    from_float(sum, static_cast<__nv_bfloat16*>(p.out)[at]);
  }
}

}  // namespace
}  // namespace warpwatch
