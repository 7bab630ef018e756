#if WARPWATCH_WITH_CUDA

#include "primitives/tensor_map.h"

#include <atomic>

namespace warpwatch {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

cudaError_t find_encoder(Encode& encode) {
  // Cached only on success: before the first use of the driver the look-up may fail, and succeed later.
  static std::atomic<Encode> known{nullptr};
  encode = known.load(std::memory_order_relaxed);
  if (encode != nullptr) return cudaSuccess;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  if (status != cudaSuccess) return status;
  if (result != cudaDriverEntryPointSuccess || found == nullptr) return cudaErrorNotSupported;
  encode = reinterpret_cast<Encode>(found);
  known.store(encode, std::memory_order_relaxed);
  return cudaSuccess;
}

// Sizes and box list the contiguous dimension first; strides are those of the other dimensions.
template <int kRank>
cudaError_t encode_tiles(CUtensorMap& map, CUtensorMapDataType type, const void* first, const cuuint64_t (&sizes)[kRank],
                         const cuuint64_t (&strides_bytes)[kRank - 1], const cuuint32_t (&box)[kRank],
                         CUtensorMapSwizzle swizzle) {
  Encode encode;
  if (const cudaError_t error = find_encoder(encode); error != cudaSuccess) return error;
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  const CUresult status =
      encode(&map, type, kRank, const_cast<void*>(first), sizes, strides_bytes, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t map_bytes(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows, int box_bytes, CUtensorMapSwizzle swizzle) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(k_bytes), static_cast<cuuint64_t>(rows)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_bytes), static_cast<cuuint32_t>(box_rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride_bytes)};
  return encode_tiles<2>(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, first, sizes, strides, box, swizzle);
}

}  // namespace

cudaError_t map_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows) {
  return map_bytes(map, first, rows, k_bytes, stride_bytes, box_rows, 128, CU_TENSOR_MAP_SWIZZLE_128B);
}

cudaError_t map_half_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                           int box_rows) {
  return map_bytes(map, first, rows, k_bytes, stride_bytes, box_rows, 64, CU_TENSOR_MAP_SWIZZLE_64B);
}

cudaError_t map_heads(CUtensorMap& map, const void* first, const HeadSizes& of, int64_t batch_stride,
                      int64_t head_stride, int64_t row_stride, int box_rows) {
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(of.head_dim), static_cast<cuuint64_t>(of.rows),
                               static_cast<cuuint64_t>(of.heads), static_cast<cuuint64_t>(of.batch)};
  const cuuint64_t strides[3] = {static_cast<cuuint64_t>(2 * row_stride), static_cast<cuuint64_t>(2 * head_stride),
                                 static_cast<cuuint64_t>(2 * batch_stride)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1};
  return encode_tiles<4>(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, first, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

cudaError_t map_plain_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                           int box_bytes) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(row_bytes / 4), static_cast<cuuint64_t>(rows)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_bytes / 4), static_cast<cuuint32_t>(box_rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_bytes)};
  return encode_tiles<2>(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, first, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_NONE);
}

cudaError_t map_long_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                          int box_bytes) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(row_bytes / 8), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_bytes / 8), static_cast<cuuint32_t>(box_rows)};
  return encode_tiles<2>(map, CU_TENSOR_MAP_DATA_TYPE_UINT64, first, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_NONE);
}

cudaError_t map_slabs(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows, int box_slabs) {
  const cuuint64_t sizes[3] = {128, static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(k_bytes / 128)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(stride_bytes), 128};
  const cuuint32_t box[3] = {128, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_slabs)};
  return encode_tiles<3>(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, first, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace warpwatch

#endif
