// Hopper, more rows of x than the decode kernel takes: wgmma, and clusters that divide k where tiles are few.
#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "int8_linear/int8_linear_epilogue.cuh"
#include "primitives/block_product_sm90a.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/launch_shape.h"
#include "primitives/tensor_map.h"

namespace warpwatch {

// Block is a BlockProductSm90a; a cluster of kSplits blocks shares a tile.
template <typename Block, typename Element, int kSplits, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    int8_linear_wgmma(const Int8LinearParams p, const __grid_constant__ CUtensorMap x,
                      const __grid_constant__ CUtensorMap weight) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const BlockPlace place =
      BlockPlace::of(blockIdx.x / kSplits, (p.m - 1) / Block::kM + 1, (p.n - 1) / Block::kN + 1);
  const int first_m = place.m * Block::kM, first_n = place.n * Block::kN;
  const int slabs = (p.k - 1) / kSlabBytes + 1, part = (slabs - 1) / kSplits + 1;
  const int begin = min(static_cast<int>(blockIdx.x % kSplits) * part, slabs), end = min(begin + part, slabs);

  Block block;
  // The weight is on its way while the tokens are still being quantized.
  block.run(x, weight, first_m, first_n, begin, end, shared, [] { wait_for_previous_kernel(); });
  block.template each_pair_of_cluster<kSplits>(shared, [&](int m, int n, int even, int odd) {
    store_scaled_pair<Element>(p, first_m + m, first_n + n, even, odd);
  });
}

template <typename Block, typename Element, int kSplits>
cudaError_t launch_int8_wgmma(const Int8LinearParams& p, cudaStream_t stream) {
  const int64_t tiles =
      (static_cast<int64_t>(p.m - 1) / Block::kM + 1) * (static_cast<int64_t>(p.n - 1) / Block::kN + 1);
  if (tiles * kSplits > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  using Shape = LaunchShape<Block::kBlockThreads, Block::kSharedBytes>;
  const auto kernel = int8_linear_wgmma<Block, Element, kSplits, Shape>;
  cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kDynamicSharedBytes);
  CUtensorMap x, weight;
  if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k, p.k, Block::kM);
  if (status == cudaSuccess) status = map_tiles(weight, p.weight, p.n, p.k, p.k, Block::kN);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kSplits, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(tiles * kSplits));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kDynamicSharedBytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, p, x, weight);
}

}  // namespace warpwatch
