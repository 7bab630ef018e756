// TMA tensor maps, encoded on the host with cuTensorMapEncodeTiled, which is resolved from the driver at run time.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpwatch {

// Boxes of `box_rows` rows (256 at most) by 128 bytes of k, written with the swizzle of swizzle.cuh. TMA fills zeros past the
// matrix. `first` and stride_bytes are multiples of 16, k_bytes is below 2^32.
cudaError_t map_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows);

// The same with 64 bytes of k.
cudaError_t map_half_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                           int box_rows);

// Boxes of `box_rows` rows (256 at most) by 64 16-bit elements of a tensor (batch, heads, rows, head_dim), swizzled likewise.
// TMA fills zeros past a head's rows. Strides are multiples of 8 elements and not 0; `first` is 16-byte aligned.
struct HeadSizes {
  int batch, heads, rows, head_dim;
};
cudaError_t map_heads(CUtensorMap& map, const void* first, const HeadSizes& of, int64_t batch_stride,
                      int64_t head_stride, int64_t row_stride, int box_rows);

// Boxes of `box_rows` rows (256 at most) by box_bytes (a multiple of 16, 1024 at most), written row after row without a
// swizzle. TMA fills zeros past the matrix. Rows of row_bytes, a multiple of 16, are contiguous. The map's element is 4 bytes.
cudaError_t map_plain_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                           int box_bytes);

// The same with elements of 8 bytes, for boxes of up to 2048 bytes per row; row_bytes is a multiple of 16.
cudaError_t map_long_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                          int box_bytes);

// As map_tiles, with `box_slabs` * 128 bytes of k: slab after slab, each of box_rows rows. k_bytes is a multiple of 128.
cudaError_t map_slabs(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows, int box_slabs);

}  // namespace warpwatch
