// Thread block clusters: launch, barrier and distributed shared memory. Hopper and newer. Wraps the instructions behind
// cooperative_groups::this_cluster(), whose header adds a second of compilation to each source.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "primitives/attributes.h"
#include "primitives/launch_shape.h"

namespace warpwatch {

// Launches a one-dimensional grid of `blocks` thread blocks, in clusters of kBlocks.
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

// The address of `own` in the shared memory of another block of the cluster.
template <typename T>
__device__ __forceinline__ T* shared_of_block(T* own, unsigned rank) {
  return static_cast<T*>(__cluster_map_shared_rank(own, rank));
}

}  // namespace warpwatch
