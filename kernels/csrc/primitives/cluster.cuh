// Thread block clusters: launch, barrier and distributed shared memory. Hopper and newer.
//   What cooperative_groups::this_cluster() calls: its header would cost each source a second of compilation.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "primitives/attributes.h"
#include "primitives/launch_shape.h"

namespace warpwatch {

// Launches `blocks` thread blocks in a row, kBlocks to a cluster.
template <int kBlocks, typename Shape, typename... Parameters, typename... Arguments>
cudaError_t launch_cluster(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t stream,
                           const Arguments&... arguments) {
  if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
  const cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kBlocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kDynamicSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__device__ __forceinline__ void cluster_arrive() { __cluster_barrier_arrive(); }
__device__ __forceinline__ void cluster_wait() { __cluster_barrier_wait(); }
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

__device__ __forceinline__ unsigned cluster_block_rank() { return __clusterRelativeBlockRank(); }

// What lies in another block's shared memory at the place of `own` in this block's.
template <typename T>
__device__ __forceinline__ T* shared_of_block(T* own, unsigned rank) {
  return static_cast<T*>(__cluster_map_shared_rank(own, rank));
}

}  // namespace warpwatch
