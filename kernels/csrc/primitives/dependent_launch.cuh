// Programmatic dependent launch (PDL): the dependent grid starts while the primary grid still runs and waits for its results
// where it reads them; Hopper and newer. On older GPUs both calls are no-ops and the grids run one after the other.
#pragma once

#include <cuda_runtime.h>

#include "primitives/attributes.h"

namespace warpwatch {

// In the primary: the dependent grid may start once every CTA has called this or exited.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// In the dependent: blocks until the primary grid has completed and its writes are visible. A no-op without the PDL attribute.
__device__ __forceinline__ void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// Launches the dependent kernel, which must call grid_dependency_wait() before it reads what the primary wrote. The PDL
// attribute is set only if the loaded code is for sm_90 or newer: code for an older architecture has no wait in it.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_dependent(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, cudaStream_t stream,
                             const Arguments&... arguments) {
  int architecture = 0;
  if (const cudaError_t error = architecture_of_code(reinterpret_cast<const void*>(kernel), architecture);
      error != cudaSuccess) {
    return error;
  }
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = architecture >= 90 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace warpwatch
