// primitives/tensor_map.cpp where the driver is not found the first time it is asked for: exits with 0 if the second call finds it.
#include <cuda.h>
#include <cuda_runtime_api.h>

static int calls = 0;
static CUresult CUDAAPI encode(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                               const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

extern "C" cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char*, void** found, unsigned, unsigned long long,
                                                                 cudaDriverEntryPointQueryResult* result) {
  if (calls++ == 0) return cudaErrorInitializationError;
  *found = reinterpret_cast<void*>(&encode);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

#include "primitives/tensor_map.h"

int main() {
  CUtensorMap map;
  if (warpwatch::map_tiles(map, nullptr, 64, 128, 128, 64) != cudaErrorInitializationError) return 1;
  if (warpwatch::map_tiles(map, nullptr, 64, 128, 128, 64) != cudaSuccess) return 2;
  if (warpwatch::map_tiles(map, nullptr, 64, 128, 128, 64) != cudaSuccess) return 3;
  return calls == 2 ? 0 : 4;  // found once, known from then on
}
