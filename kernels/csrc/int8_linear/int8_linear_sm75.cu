// int8_linear on Turing: mma m8n8k16, slabs staged through registers.
#include "int8_linear/int8_linear_launch.cuh"
#include "primitives/block_product_sm75.cuh"

namespace warpwatch {
namespace {

struct Batch {
  template <typename Element>
  static cudaError_t launch(const Int8LinearParams& p, cudaStream_t stream) {
    static_assert(std::size(kInt8BatchTilesSm75) == 1 && kInt8BatchTilesSm75[0].stages == 2);
    constexpr Int8BatchTile kTile = kInt8BatchTilesSm75[0];
    if (p.tile != 0) return cudaErrorInvalidValue;
    using Block = BlockProductSm75<Int8MmaSm75, kTile.rows, kTile.outputs, kTile.warps_along_rows,
                                   kTile.warps_along_outputs>;
    return launch_int8_batch<Block, Element, kTile.blocks_per_sm>(p, stream);
  }
};

}  // namespace

cudaError_t int8_linear_sm75(const Int8LinearParams& p, cudaStream_t stream) {
  return launch_int8_linear<Int8MmaSm75, Batch>(p, stream);
}

}  // namespace warpwatch
