// Functions that the CPU's versions and the kernels both call.
#pragma once

#if defined(__CUDACC__)
#define WARPWATCH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define WARPWATCH_HOST_DEVICE inline
#endif
