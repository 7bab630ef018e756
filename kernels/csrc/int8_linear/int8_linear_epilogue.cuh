// Shared by the kernels of all architectures: operand checks, and the epilogue that scales exact sums to elements of out.
#pragma once

#include "int8_linear/int8_linear.h"
#include "primitives/element.cuh"

namespace warpwatch {

inline bool int8_linear_takes(const Int8LinearParams& p) {
  const bool aligned = reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && reinterpret_cast<uintptr_t>(p.weight) % 16 == 0;
  return aligned && p.m > 0 && p.n > 0 && p.k > 0 && p.k % 16 == 0 && p.k <= kMostInt8Depth;
}

template <typename Element>
__device__ __forceinline__ float scaled(const Int8LinearParams& p, int m, int n, int sum) {
  // Not __ldg: with dependent launch, the kernel that writes the scales may still have been running when this one started.
  const float shift = p.bias == nullptr ? 0.0f : as_float(static_cast<const Element*>(p.bias)[n]);
  return static_cast<float>(sum) * __ldcg(p.x_scales + m) * __ldg(p.weight_scales + n) + shift;
}

// Stores one element at (m, n), which lies inside out.
template <typename Element>
__device__ __forceinline__ void store_scaled(const Int8LinearParams& p, int m, int n, int sum) {
  static_cast<Element*>(p.out)[static_cast<int64_t>(m) * p.n + n] = rounded<Element>(scaled<Element>(p, m, n, sum));
}

// Stores (m, n) and (m, n + 1), n even; elements outside out are skipped.
template <typename Element>
__device__ __forceinline__ void store_scaled_pair(const Int8LinearParams& p, int m, int n, int even, int odd) {
  if (m >= p.m || n >= p.n) return;
  Element* const out = static_cast<Element*>(p.out) + static_cast<int64_t>(m) * p.n + n;
  if (p.n % 2 == 0) {  // then n + 1 is inside too, and pairs are aligned
    store_pair(out, scaled<Element>(p, m, n, even), scaled<Element>(p, m, n + 1, odd));
  } else {
    out[0] = rounded<Element>(scaled<Element>(p, m, n, even));
    if (n + 1 < p.n) out[1] = rounded<Element>(scaled<Element>(p, m, n + 1, odd));
  }
}

}  // namespace warpwatch
