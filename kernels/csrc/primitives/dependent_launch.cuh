// Programmatic dependent launch: a kernel may begin while the one before it on the stream still runs, and wait for its
// results where it needs them; Hopper and newer. Elsewhere both calls do nothing, and kernels follow each other.
#pragma once

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

}  // namespace warpwatch
