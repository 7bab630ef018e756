// Programmatic dependent launch: a kernel may begin while the one before it on the stream still runs, and wait for its
// results where it needs them; Hopper and newer. Elsewhere both calls do nothing, and kernels follow each other.
#pragma once

#include <cuda_runtime.h>

#include "primitives/attributes.h"

namespace warpwatch {

// In the first kernel: from here on, once all blocks have come by, the next kernel's blocks may begin.
__device__ __forceinline__ void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// In the second: until the first kernel has ended and its results are to be seen. A no-op if it was launched plainly.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// Launches the second kernel, which must call wait_for_previous_kernel() before it reads what the first wrote: early where
// its code has that call in it, else when the first has ended. The code may be of an older architecture than the GPU.
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
