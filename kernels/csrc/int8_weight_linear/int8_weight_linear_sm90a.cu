// Hopper: fp16 and bf16 by wgmma, slabs through TMA.
#include "int8_weight_linear/int8_weight_linear_sm90a.cuh"

#include <array>

#include "int8_weight_linear/int8_weight_linear_tiles.h"

namespace warpwatch {
namespace {

template <typename Element, int kIndex = 0>
cudaError_t launch(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt8WeightWgmmaTiles)) {
    return cudaErrorInvalidValue;  // int8_weight_wgmma_tile names no tile
  } else {
    if (p.tile != kIndex) return launch<Element, kIndex + 1>(p, stream);
    constexpr Int8WeightWgmmaTile kTile = kInt8WeightWgmmaTiles[kIndex];
    return launch_int8_weight_wgmma<Element, kTile.outputs, kTile.rows, kTile.stages, kTile.splits,
                                    kTile.blocks_per_sm>(p, stream);
  }
}

}  // namespace

cudaError_t int8_weight_linear_sm90a(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if (!int8_weight_wgmma_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
