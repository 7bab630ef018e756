// TMA tensor maps, encoded on the host with cuTensorMapEncodeTiled, which is resolved from the driver at run time.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace warpwatch {

// Boxes of `box_rows` rows (256 at most) by 128 bytes of k, which land swizzled as swizzle.cuh has it; what lies beyond the
// matrix lands as zeros. `first` and stride_bytes are multiples of 16, k_bytes is below 2^32.
cudaError_t map_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows);

// The same by 64 bytes of k.
cudaError_t map_half_tiles(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                           int box_rows);

// Boxes of `box_rows` rows (256 at most) by 64 elements of 16 bits out of (batch, heads, rows, head_dim), which land
// swizzled likewise; what lies beyond a head's rows lands as zeros. Strides, in elements, and `first`, in bytes, are multiples
// of 8 and 16, and none is 0.
struct HeadSizes {
  int batch, heads, rows, head_dim;
};
cudaError_t map_heads(CUtensorMap& map, const void* first, const HeadSizes& of, int64_t batch_stride,
                      int64_t head_stride, int64_t row_stride, int box_rows);

// Boxes of `box_rows` rows (256 at most) by box_bytes (a multiple of 16, 1024 at most), which land row after row as they
// are; what lies beyond the matrix lands as zeros. Rows of row_bytes, a multiple of 16, follow each other. The element
// of the map is 4 bytes.
cudaError_t map_plain_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                           int box_bytes);

// As above with elements of 8 bytes, for boxes of up to 2048 bytes a row; row_bytes is a multiple of 16.
cudaError_t map_long_rows(CUtensorMap& map, const void* first, int64_t rows, int64_t row_bytes, int box_rows,
                          int box_bytes);

// As map_tiles, of `box_slabs` times 128 bytes of k: slab after slab, each of box_rows rows. k_bytes is a multiple of 128.
cudaError_t map_slabs(CUtensorMap& map, const void* first, int64_t rows, int64_t k_bytes, int64_t stride_bytes,
                      int box_rows, int box_slabs);

}  // namespace warpwatch
