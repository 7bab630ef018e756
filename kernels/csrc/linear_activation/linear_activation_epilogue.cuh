// Epilogues of Hopper's products (pair_product_sm90a.cuh, linear_activation_few_rows_sm90a.cu): bias and activation, applied to
// the fp32 accumulators in the C layout of wgmma.cuh before they are stored.
//
// kSumsEach: accumulators per result. With 2, the first half of a thread's accumulators belong to the gate's weight, the second
// half to up's.
#pragma once

#include "linear_activation/activation.cuh"
#include "primitives/element.cuh"

namespace warpwatch {

// Adds the bias to kTiles tiles of 8 outputs, from tile kFirst of the accumulators on.
template <typename Element, int kFirst, int kTiles, int kAllTiles>
__device__ __forceinline__ void add_bias(const void* bias, int outputs, int first_output, float (&sums)[kAllTiles][4]) {
  if (bias == nullptr) return;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int n = first_output + 8 * t + threadIdx.x % 4 * 2 + odd;
      const float added = n < outputs ? as_float(static_cast<const Element*>(bias)[n]) : 0.0f;
      sums[kFirst + t][odd] += added;
      sums[kFirst + t][2 + odd] += added;
    }
  }
}

template <typename Type>
struct LayerEpilogue {
  using Element = Type;
  using Params = LinearActivationParams;
  static constexpr int kSumsEach = 1;

  template <Activation kActivation, int kTiles>
  static __device__ __forceinline__ void activate(float (&sums)[kTiles][4]) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[t][i] = activated<kActivation, Element>(sums[t][i]);
    }
  }

  template <int kTiles>
  static __device__ __forceinline__ void prepare(const Params& p, float (&sums)[kTiles][4], int first_output) {
    add_bias<Element, 0, kTiles>(p.bias, p.n, first_output, sums);
    switch (p.activation) {
      case Activation::kNone: break;
      case Activation::kGelu: activate<Activation::kGelu>(sums); break;
      case Activation::kGeluTanh: activate<Activation::kGeluTanh>(sums); break;
      case Activation::kSilu: activate<Activation::kSilu>(sums); break;
    }
  }

  template <int kTiles>
  static __device__ __forceinline__ float result(const float (&sums)[kTiles][4], int tile, int i) {
    return sums[tile][i];
  }
};

// silu(gate) * up
template <typename Type>
struct GatedEpilogue {
  using Element = Type;
  using Params = LinearActivationParams;
  static constexpr int kSumsEach = 2;

  template <int kTiles>
  static __device__ __forceinline__ void prepare(const Params& p, float (&sums)[kTiles][4], int first_output) {
    add_bias<Element, 0, kTiles / 2>(p.bias, p.n, first_output, sums);
    add_bias<Element, kTiles / 2, kTiles / 2>(p.up_bias, p.n, first_output, sums);
  }

  template <int kTiles>
  static __device__ __forceinline__ float result(const float (&sums)[kTiles][4], int tile, int i) {
    return silu<Element>(sums[tile][i]) * sums[kTiles / 2 + tile][i];
  }
};

}  // namespace warpwatch
