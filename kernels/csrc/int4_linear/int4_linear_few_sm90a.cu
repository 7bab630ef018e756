// int4_linear on Hopper: fp16 and bf16, up to kInt4FewRows rows of x.
#include "int4_linear/int4_linear_few.cuh"

#include <array>

#include "int4_linear/int4_linear_formats.cuh"
#include "int4_linear/int4_linear_tiles.h"

namespace warpwatch {
namespace {

struct Few {
  template <typename Element, int kGroup, bool kZeroPoints, int kIndex = 0>
  static cudaError_t run(const Int4LinearParams& p, cudaStream_t stream) {
    if constexpr (kIndex == std::size(kInt4FewTiles)) {
      return cudaErrorInvalidValue;  // int4_few_tile found no tile
    } else {
      if (p.tile != kIndex) return run<Element, kGroup, kZeroPoints, kIndex + 1>(p, stream);
      constexpr Int4FewTile kTile = kInt4FewTiles[kIndex];
      return launch_int4_few<Element, kGroup, kZeroPoints, kTile.n16_tiles, kTile.rows, kTile.slabs, kTile.teams,
                             kTile.stages, kTile.splits, kTile.blocks_per_sm>(p, stream);
    }
  }
};

}  // namespace

cudaError_t int4_linear_few_sm90a(const Int4LinearParams& p, cudaStream_t stream) {
  if (!int4_tma_takes(p)) return cudaErrorInvalidValue;
  return launch_int4_format<Few, __half, __nv_bfloat16>(p, stream);
}

}  // namespace warpwatch
