// Hopper: wgmma, slabs through TMA. Few rows of x are what int8_linear_sm80 has them for.
#include "int8_linear/int8_linear_sm90a.cuh"

#include <array>

#include "int8_linear/int8_linear_tiles.h"

namespace warpwatch {
namespace {

template <typename Element, int kIndex = 0>
cudaError_t launch(const Int8LinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt8WgmmaTiles)) {
    return cudaErrorInvalidValue;  // int8_wgmma_tile names no tile
  } else {
    if (p.tile != kIndex) return launch<Element, kIndex + 1>(p, stream);
    constexpr Int8WgmmaTile kTile = kInt8WgmmaTiles[kIndex];
    using Block = BlockProductSm90a<Int8Wgmma, kTile.rows, kTile.outputs, kTile.stages>;
    return launch_int8_wgmma<Block, Element, kTile.splits>(p, stream);
  }
}

}  // namespace

cudaError_t int8_linear_sm90a(const Int8LinearParams& p, cudaStream_t stream) {
  if (!int8_linear_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
