// linear_activation on Turing: fp16 only, m16n8k8, slabs staged through registers.
#include "linear_activation/linear_activation_kernel.cuh"
#include "primitives/block_product_sm75.cuh"
#include "primitives/byte_mma.cuh"

namespace warpwatch {

cudaError_t linear_activation_sm75(const LinearActivationParams& p, cudaStream_t stream) {
  constexpr LinearTile kTile = kLinearTilesSm75[0];
  static_assert(kTile.stages == 2);
  using Block =
      BlockProductSm75<HalfMmaSm75, kTile.rows, kTile.outputs, kTile.warps_along_rows, kTile.warps_along_outputs>;
  if (p.tile != 0 || p.dtype != Dtype::kFloat16) return cudaErrorInvalidValue;
  return launch_fused<Block, __half, kTile.blocks_per_sm>(p, stream);
}

}  // namespace warpwatch
