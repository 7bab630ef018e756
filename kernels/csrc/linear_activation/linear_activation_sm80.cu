// linear_activation on Ampere and newer: fp16 and bf16, m16n8k16, slabs through a cp.async pipeline.
#include <array>

#include "linear_activation/linear_activation_kernel.cuh"
#include "primitives/block_product_sm80.cuh"
#include "primitives/byte_mma.cuh"

namespace warpwatch {
namespace {

template <typename Element, int kIndex = 0>
cudaError_t launch(const LinearActivationParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kLinearTilesSm80)) {
    return cudaErrorInvalidValue;  // linear_tile found no tile
  } else {
    if (p.tile != kIndex) return launch<Element, kIndex + 1>(p, stream);
    constexpr LinearTile kTile = kLinearTilesSm80[kIndex];
    using Block = BlockProductSm80<FloatMmaSm80<Element>, kTile.rows, kTile.outputs, kTile.warps_along_rows,
                                   kTile.warps_along_outputs, kTile.stages>;
    return launch_fused<Block, Element, kTile.blocks_per_sm>(p, stream);
  }
}

}  // namespace

cudaError_t linear_activation_sm80(const LinearActivationParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
