// A launch of `blocks` thread blocks in a row, `kBlocks` to a cluster.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "primitives/attributes.h"
#include "primitives/launch_shape.h"

namespace warpwatch {

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

}  // namespace warpwatch
