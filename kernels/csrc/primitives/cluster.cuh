// Thread block clusters: barrier and distributed shared memory. Hopper and newer.
//   What cooperative_groups::this_cluster() calls: its header would cost each source a second of compilation.
#pragma once

#include <cuda_runtime.h>

namespace warpwatch {

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
