// int4_linear on Hopper: fp16 and bf16 by wgmma, up to kInt4HopperRows rows of x.
#include "int4_linear/int4_linear_many.cuh"

#include <array>

#include "int4_linear/int4_linear_formats.cuh"
#include "int4_linear/int4_linear_tiles.h"

namespace warpwatch {
namespace {

struct Many {
  template <typename Element, int kGroup, bool kZeroPoints, int kIndex = 0>
  static cudaError_t run(const Int4LinearParams& p, cudaStream_t stream) {
    if constexpr (kIndex == std::size(kInt4ManyTiles)) {
      return cudaErrorInvalidValue;  // int4_many_tile found no tile
    } else {
      if (p.tile != kIndex) return run<Element, kGroup, kZeroPoints, kIndex + 1>(p, stream);
      constexpr Int4ManyTile kTile = kInt4ManyTiles[kIndex];
      return launch_int4_many<Element, kGroup, kZeroPoints, kTile.outputs, kTile.rows, kTile.stages, kTile.splits,
                              kTile.blocks_per_sm>(p, stream);
    }
  }
};

}  // namespace

cudaError_t int4_linear_many_sm90a(const Int4LinearParams& p, cudaStream_t stream) {
  if (!int4_tma_takes(p)) return cudaErrorInvalidValue;
  return launch_int4_format<Many, __half, __nv_bfloat16>(p, stream);
}

}  // namespace warpwatch
