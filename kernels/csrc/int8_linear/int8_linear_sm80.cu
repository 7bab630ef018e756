// int8_linear on Ampere and newer: mma m16n8k32, slabs through a cp.async pipeline.
#include "int8_linear/int8_linear_launch.cuh"
#include "primitives/block_product_sm80.cuh"

namespace warpwatch {
namespace {

struct Batch {
  template <typename Element, int kIndex = 0>
  static cudaError_t launch(const Int8LinearParams& p, cudaStream_t stream) {
    if constexpr (kIndex == std::size(kInt8BatchTilesSm80)) {
      return cudaErrorInvalidValue;  // int8_linear_plan found no tile
    } else {
      if (p.tile != kIndex) return launch<Element, kIndex + 1>(p, stream);
      constexpr Int8BatchTile kTile = kInt8BatchTilesSm80[kIndex];
      using Block = BlockProductSm80<Int8MmaSm80, kTile.rows, kTile.outputs, kTile.warps_along_rows,
                                     kTile.warps_along_outputs, kTile.stages>;
      return launch_int8_batch<Block, Element, kTile.blocks_per_sm>(p, stream);
    }
  }
};

}  // namespace

cudaError_t int8_linear_sm80(const Int8LinearParams& p, cudaStream_t stream) {
  return launch_int8_linear<Int8MmaSm80, Batch>(p, stream);
}

}  // namespace warpwatch
