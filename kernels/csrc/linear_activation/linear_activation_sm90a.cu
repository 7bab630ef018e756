// linear_activation on Hopper for many rows: pair_product_sm90a.cuh with bias and activation as epilogue on
// the fp32 accumulators. cuBLAS and a second launch would move 4 m n bytes more, 8 m n for swiglu: write
// the product, read it and write it again.
#include "linear_activation/activation.cuh"
#include "primitives/element.cuh"
#include "primitives/pair_product_sm90a.cuh"

namespace warpwatch {
namespace {

// Applies bias and activation to kTiles tiles of 8 outputs, from tile kFirst of the accumulators on.
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

// silu(gate) * up: the first half of a thread's accumulators belong to the gate, the second half to up.
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

template <typename Epilogue, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    linear_activation_wgmma(const LinearActivationParams p, const PairTiles tiles, const __grid_constant__ CUtensorMap x,
                            const __grid_constant__ CUtensorMap first_weights,
                            const __grid_constant__ CUtensorMap second_weights) {
  PairProduct<Epilogue>::run(p, tiles, x, first_weights, second_weights);
}

template <typename Epilogue>
cudaError_t launch(const LinearActivationParams& p, cudaStream_t stream) {
  using Product = PairProduct<Epilogue>;
  const auto map = [&](CUtensorMap& to, const void* weight, int64_t stride) {
    return map_tiles(to, weight, p.n, p.k * int64_t{2}, stride * 2, 64);
  };
  CUtensorMap first, second;
  cudaError_t status = map(first, p.weight, p.weight_stride);
  if (status == cudaSuccess) {
    status = Epilogue::kSumsEach == 2 ? map(second, p.up_weight, p.up_weight_stride) : map(second, p.weight, p.weight_stride);
  }
  if (status != cudaSuccess) return status;
  return Product::launch(linear_activation_wgmma<Epilogue, typename Product::Shape>, p, first, second, stream);
}

template <typename Element>
cudaError_t launch_layer(const LinearActivationParams& p, cudaStream_t stream) {
  return p.up_weight == nullptr ? launch<LayerEpilogue<Element>>(p, stream) : launch<GatedEpilogue<Element>>(p, stream);
}

}  // namespace

cudaError_t linear_activation_sm90a(const LinearActivationParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_layer<__half>(p, stream);
    case Dtype::kBFloat16: return launch_layer<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
