// What a TMA load is told of a matrix, made on the host: cuTensorMapEncodeTiled, found in the driver that is there.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpwatch {

inline cudaError_t encode_tiles(CUtensorMap& map, CUtensorMapDataType type, const void* first, const cuuint64_t (&sizes)[2],
                                int64_t stride_bytes, const cuuint32_t (&box)[2], CUtensorMapSwizzle swizzle) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride_bytes)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult status =
      encode(&map, type, 2, const_cast<void*>(first), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Boxes of `box_rows` rows (256 at most) by 128 bytes of k, which land swizzled as swizzle.cuh has it; what lies beyond the
// matrix lands as zeros. `first` and stride_bytes are multiples of 16, k_bytes is below 2^32.
inline cudaError_t map_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                             int box_rows) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(k_bytes), static_cast<cuuint64_t>(rows)};
  const cuuint32_t box[2] = {128, static_cast<cuuint32_t>(box_rows)};
  return encode_tiles(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, first, sizes, stride_bytes, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

// Boxes of `box_rows` rows (256 at most) by box_bytes (a multiple of 16, 1024 at most), which land row after row as they
// are; what lies beyond the matrix lands as zeros. Rows of row_bytes, a multiple of 16, follow each other. TMA counts
// the bytes by fours here.
inline cudaError_t map_plain_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                                  int box_bytes) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(row_bytes / 4), static_cast<cuuint64_t>(rows)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_bytes / 4), static_cast<cuuint32_t>(box_rows)};
  return encode_tiles(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, first, sizes, row_bytes, box, CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace warpwatch
