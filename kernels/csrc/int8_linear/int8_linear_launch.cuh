// From the parameters to one instantiation of a kernel: element and tile.
#pragma once

#include <array>
#include <limits>

#include "int8_linear/int8_linear_batch.cuh"
#include "int8_linear/int8_linear_decode.cuh"
#include "int8_linear/int8_linear_tiles.h"
#include "primitives/attributes.h"
#include "primitives/dependent_launch.cuh"

namespace warpwatch {

template <typename Mma, typename Element, int kIndex = 0>
cudaError_t launch_int8_decode(const Int8LinearParams& p, cudaStream_t stream, int index) {
  if constexpr (kIndex == std::size(kInt8DecodeTiles)) {
    return cudaErrorInvalidValue;  // int8_decode_tile names no tile
  } else {
    if (index != kIndex) return launch_int8_decode<Mma, Element, kIndex + 1>(p, stream, index);
    constexpr Int8DecodeTile kTile = kInt8DecodeTiles[kIndex];
    if (p.m > 8 * kTile.x_tiles) return cudaErrorInvalidValue;
    const auto kernel =
        int8_linear_decode<Mma, Element, kTile.x_tiles, kTile.warps, kTile.depth, kTile.blocks_per_sm>;
    return launch_dependent(kernel, (p.n - 1) / 16 + 1, 32 * kTile.warps, stream, p);
  }
}

template <typename Block, typename Element, int kBlocksPerSm>
cudaError_t launch_int8_batch(const Int8LinearParams& p, cudaStream_t stream) {
  const int64_t tiles =
      (static_cast<int64_t>(p.m - 1) / Block::kM + 1) * (static_cast<int64_t>(p.n - 1) / Block::kN + 1);
  const bool room = p.splits == 1 || (p.arrived != nullptr && p.partials != nullptr);
  if (tiles > std::numeric_limits<int>::max() || p.splits < 1 || p.splits > 65535 || !room) {
    return cudaErrorInvalidValue;
  }
  using Shape = LaunchShape<Block::kThreads, Block::kSharedBytes>;
  const auto kernel = int8_linear_batch<Block, Element, kBlocksPerSm, Shape>;
  const cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(tiles), p.splits);
  kernel<<<grid, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

// Batch::launch<Element>(p, stream) launches the tile p.tile of its architecture.
template <typename Mma, typename Batch, typename Element>
cudaError_t launch_int8_linear(const Int8LinearParams& p, cudaStream_t stream) {
  if (p.m <= kInt8DecodeRows) return launch_int8_decode<Mma, Element>(p, stream, int8_decode_tile(p.m));
  return Batch::template launch<Element>(p, stream);
}

template <typename Mma, typename Batch>
cudaError_t launch_int8_linear(const Int8LinearParams& p, cudaStream_t stream) {
  if (!int8_linear_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_int8_linear<Mma, Batch, __half>(p, stream);
    case Dtype::kBFloat16: return launch_int8_linear<Mma, Batch, __nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch_int8_linear<Mma, Batch, float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
