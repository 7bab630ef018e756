// Where in the pages a position lies; one rule for the CPU and the GPU.
#pragma once

#include "paged_kv/paged_kv.h"
#include "primitives/host_device.h"

namespace warpwatch {

// Byte offsets of a position's row of head 0: of keys and of values.
struct InPages {
  int64_t of[2];
};

// False where the position is not among the sequence's keys, or no page has room for it.
WARPWATCH_HOST_DEVICE bool find_in_pages(const PagedKvParams& p, int64_t batch, int64_t position, InPages& in) {
  const int64_t capacity = static_cast<int64_t>(p.table_pages) << p.page_shift;
  if (position < 0 || position >= capacity || position >= p.lengths[batch]) return false;
  const int64_t page = p.block_table[batch * p.table_stride + (position >> p.page_shift)];
  const int64_t page_row = position & ((int64_t{1} << p.page_shift) - 1);
  for (int tensor = 0; tensor < 2; ++tensor) {
    in.of[tensor] = page * p.page_strides[tensor][0] + page_row * p.page_strides[tensor][2];
  }
  return true;
}

}  // namespace warpwatch
