// Swizzle of 16-byte chunks in a shared-memory tile, so that neither row nor column accesses have bank conflicts.
//
// Shared memory has 32 banks of 4 bytes: 128 bytes, or 8 chunks, per cycle. In a plain row-major tile whose rows are a multiple
// of 128 bytes, one chunk column of 8 rows, which is what ldmatrix reads, falls into the same 4 banks: 8 cycles. Storing chunk
// c of row r at c ^ (r % 8) spreads that column over all banks and only permutes the chunks within a row, which is what global
// loads fill.
// If rows are an odd multiple of 64 bytes, two neighbouring rows already start 64 bytes apart modulo 128: four positions per
// pair of rows suffice, and chunk c of row r goes to c ^ (r / 2 % 4).
#pragma once

#include <cstdint>

namespace warpwatch {

// Byte offset of chunk `chunk` of row `row`. RowBytes is a multiple of 64.
template <int RowBytes>
__host__ __device__ constexpr uint32_t swizzled(int row, int chunk) {
  static_assert(RowBytes % 64 == 0, "the swizzle permutes four or eight chunks of 16 bytes");
  const int key = RowBytes % 128 == 0 ? row & 7 : row >> 1 & 3;
  return static_cast<uint32_t>(row * RowBytes + ((chunk ^ key) << 4));
}

}  // namespace warpwatch
