// linear_activation on Hopper for many rows: pair_product_sm90a.cuh with bias and activation as epilogue on
// the fp32 accumulators. cuBLAS and a second launch would move 4 m n bytes more, 8 m n for swiglu: write
// the product, read it and write it again.
#include "linear_activation/linear_activation_epilogue.cuh"
#include "primitives/pair_product_sm90a.cuh"

namespace warpwatch {
namespace {

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
