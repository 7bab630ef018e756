// Maps the parameters to a kernel instantiation for GPUs before Hopper, using the tiles of int4_linear_tiles.h.
#pragma once

#include <array>
#include <limits>

#include "int4_linear/int4_linear_batch.cuh"
#include "int4_linear/int4_linear_decode.cuh"
#include "int4_linear/int4_linear_formats.cuh"
#include "int4_linear/int4_linear_tiles.h"

namespace warpwatch {

constexpr int64_t kMostGridRows = 65535;  // limit of gridDim.y and gridDim.z

template <typename Mma, typename Element, int kGroup, bool kZeroPoints, int kIndex = 0>
cudaError_t launch_decode(const Int4LinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt4DecodeTiles)) {
    return cudaErrorInvalidValue;  // the plan's tile is not in the table
  } else {
    if (p.tile != kIndex) return launch_decode<Mma, Element, kGroup, kZeroPoints, kIndex + 1>(p, stream);
    constexpr Int4DecodeTile kTile = kInt4DecodeTiles[kIndex];
    if (p.m > 8 * kTile.x_tiles || p.splits != 1) return cudaErrorInvalidValue;
    int4_linear_decode<Mma, Element, kGroup, kZeroPoints, kTile.x_tiles, kTile.weight_tiles, kTile.warps, kTile.depth,
                       kTile.blocks_per_sm><<<(p.n - 1) / kTile.outputs() + 1, 32 * kTile.warps, 0, stream>>>(p);
    return cudaGetLastError();
  }
}

template <typename Mma, typename Element, int kGroup, bool kZeroPoints, int kIndex = 0>
cudaError_t launch_batch(const Int4LinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt4BatchTiles)) {
    return cudaErrorInvalidValue;  // the plan's tile is not in the table
  } else {
    if (p.tile != kIndex) return launch_batch<Mma, Element, kGroup, kZeroPoints, kIndex + 1>(p, stream);
    constexpr Int4BatchTile kTile = kInt4BatchTiles[kIndex];
    const int64_t x_blocks = (static_cast<int64_t>(p.m) - 1) / kTile.x_rows() + 1;
    const int64_t sum_blocks = (static_cast<int64_t>(p.m) * p.n - 1) / 256 + 1;
    if (x_blocks > kMostGridRows || p.splits > kMostGridRows) return cudaErrorInvalidValue;
    if (p.splits > 1 && (p.workspace == nullptr || sum_blocks > std::numeric_limits<int>::max())) {
      return cudaErrorInvalidValue;
    }
    const dim3 grid((p.n - 1) / kTile.outputs() + 1, static_cast<unsigned>(x_blocks), p.splits);
    int4_linear_batch<Mma, Element, kGroup, kZeroPoints, kTile.x_tiles, kTile.warps, kTile.depth>
        <<<grid, 32 * kTile.warps, 0, stream>>>(p);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess || p.splits == 1) return status;
    int4_linear_sum<Element><<<static_cast<unsigned>(sum_blocks), 256, 0, stream>>>(p);
    return cudaGetLastError();
  }
}

template <typename Mma>
struct Int4Mma {
  template <typename Element, int kGroup, bool kZeroPoints>
  static cudaError_t run(const Int4LinearParams& p, cudaStream_t stream) {
    if (p.splits < 1) return cudaErrorInvalidValue;
    if (p.m <= kInt4DecodeRows) return launch_decode<Mma, Element, kGroup, kZeroPoints>(p, stream);
    return launch_batch<Mma, Element, kGroup, kZeroPoints>(p, stream);
  }
};

}  // namespace warpwatch
