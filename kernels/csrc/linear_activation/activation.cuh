// The activations in fp32.
#pragma once

#include "linear_activation/linear_activation.h"

namespace warpwatch {

__device__ __forceinline__ float silu(float v) { return v / (1.0f + expf(-v)); }

// Both gelus are written without 1 + erf and 1 + tanh, which cancel where v is negative: erfc(-z) is 1 + erf(z), and
// (1 + tanh u) / 2 is 1 / (1 + e^-2u).
template <Activation kActivation>
__device__ __forceinline__ float activated(float v) {
  if constexpr (kActivation == Activation::kGelu) return 0.5f * v * erfcf(v * -0.70710678118654752f);
  if constexpr (kActivation == Activation::kGeluTanh) {
    return v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
  }
  if constexpr (kActivation == Activation::kSilu) return silu(v);
  return v;
}

}  // namespace warpwatch
