// From the parameters to one instantiation of a kernel: element, group size, tile. The tiles are those of
// int4_linear_tiles.h, each built for every element and group size.
#pragma once

#include <iterator>
#include <limits>

#include "int4_linear/int4_linear_batch.cuh"
#include "int4_linear/int4_linear_decode.cuh"
#include "int4_linear/int4_linear_tiles.h"

namespace warpwatch {

constexpr int64_t kMostGridRows = 65535;  // of gridDim.y and gridDim.z

template <typename Mma, typename Element, int kGroup, int kIndex = 0>
cudaError_t launch_decode(const Int4LinearParams& p, cudaStream_t stream, int index) {
  if constexpr (kIndex == std::size(kInt4DecodeTiles)) {
    return cudaErrorInvalidValue;  // int4_decode_tile names no tile
  } else {
    if (index != kIndex) return launch_decode<Mma, Element, kGroup, kIndex + 1>(p, stream, index);
    constexpr Int4DecodeTile kTile = kInt4DecodeTiles[kIndex];
    if (p.m > 8 * kTile.x_tiles) return cudaErrorInvalidValue;
    const int blocks = (p.n - 1) / kTile.outputs() + 1;
    int4_linear_decode<Mma, Element, kGroup, kTile.x_tiles, kTile.weight_tiles, kTile.warps, kTile.depth,
                       kTile.blocks_per_sm>
        <<<blocks, 32 * kTile.warps, 0, stream>>>(p);
    return cudaGetLastError();
  }
}

template <typename Mma, typename Element, int kGroup, int kIndex = 0>
cudaError_t launch_batch(const Int4LinearParams& p, cudaStream_t stream, int index) {
  if constexpr (kIndex == std::size(kInt4BatchTiles)) {
    return cudaErrorInvalidValue;  // int4_batch_tile names no tile
  } else {
    if (index != kIndex) return launch_batch<Mma, Element, kGroup, kIndex + 1>(p, stream, index);
    constexpr Int4BatchTile kTile = kInt4BatchTiles[kIndex];
    const int64_t x_blocks = (static_cast<int64_t>(p.m) - 1) / kTile.x_rows() + 1;
    const int64_t sum_blocks = (static_cast<int64_t>(p.m) * p.n - 1) / 256 + 1;
    if (x_blocks > kMostGridRows || p.splits > kMostGridRows) return cudaErrorInvalidValue;
    if (p.splits > 1 && (p.workspace == nullptr || sum_blocks > std::numeric_limits<int>::max())) {
      return cudaErrorInvalidValue;
    }
    const dim3 grid((p.n - 1) / kTile.outputs() + 1, static_cast<unsigned>(x_blocks), p.splits);
    int4_linear_batch<Mma, Element, kGroup, kTile.x_tiles, kTile.warps, kTile.depth>
        <<<grid, 32 * kTile.warps, 0, stream>>>(p);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess || p.splits == 1) return status;
    int4_linear_sum<Element><<<static_cast<unsigned>(sum_blocks), 256, 0, stream>>>(p);
    return cudaGetLastError();
  }
}

template <typename Mma, typename Element, int kGroup>
cudaError_t launch_int4_linear(const Int4LinearParams& p, cudaStream_t stream) {
  const bool aligned = reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && p.x_stride % 8 == 0 &&
                       reinterpret_cast<uintptr_t>(p.packed_weight) % 16 == 0;
  if (!aligned || p.m < 1 || p.n < 1 || p.k < 1 || p.k % kGroup != 0 || p.splits < 1) return cudaErrorInvalidValue;
  if (p.m <= kInt4DecodeRows) {
    int device = 0, multiprocessors = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) {
      status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (status != cudaSuccess) return status;
    return launch_decode<Mma, Element, kGroup>(p, stream, int4_decode_tile(p.m, p.n, multiprocessors));
  }
  return launch_batch<Mma, Element, kGroup>(p, stream, int4_batch_tile(p.m));
}

template <typename Mma, typename Element>
cudaError_t launch_int4_linear(const Int4LinearParams& p, cudaStream_t stream) {
  if (p.group_size == 128) return launch_int4_linear<Mma, Element, 128>(p, stream);
  if (p.group_size == 64) return launch_int4_linear<Mma, Element, 64>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
