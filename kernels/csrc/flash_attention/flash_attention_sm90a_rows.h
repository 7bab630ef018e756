// The rows of attention's operands as TMA copies them: which strides it takes, and their tensor maps.
#pragma once

#include "flash_attention/flash_attention.h"
#include "primitives/tensor_map.h"

namespace warpwatch {

// Rows that show one memory twice are not TMA's.
inline bool takes_strides(const FlashAttentionStrides& strides, const HeadSizes& sizes) {
  return (sizes.rows == 1 || strides.row >= sizes.head_dim) && (sizes.heads == 1 || strides.head > 0) &&
         (sizes.batch == 1 || strides.batch > 0);
}

inline cudaError_t map_rows(CUtensorMap& map, const void* tensor, const FlashAttentionStrides& strides, HeadSizes sizes,
                            int box_rows) {
  const int64_t row = sizes.rows > 1 ? strides.row : sizes.head_dim;  // of a single one, the stride may be anything
  const int64_t head = sizes.heads > 1 ? strides.head : row * sizes.rows;
  const int64_t batch = sizes.batch > 1 ? strides.batch : head * sizes.heads;
  return map_heads(map, tensor, sizes, batch, head, row, box_rows);
}

}  // namespace warpwatch
