// Macro for functions that both the CPU versions and the kernels call.
#pragma once

#if defined(__CUDACC__)
#define WARPWATCH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define WARPWATCH_HOST_DEVICE inline
#endif
