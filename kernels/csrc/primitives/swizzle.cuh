// Where a 16-byte chunk of a row lies in a shared-memory tile, so that neither rows nor columns meet in a bank.
//
// Shared memory has 32 banks of 4 bytes: 128 bytes, or 8 chunks, pass in one cycle. In a plain row-major tile whose
// rows are a multiple of 128 bytes, one chunk column of 8 rows, which is what ldmatrix reads, sits in the same 4 banks:
// 8 cycles. Storing chunk c of row r at c ^ (r % 8) spreads that column over all banks and leaves every row, which is
// what global loads fill, a permutation of itself.
// Where rows are an odd multiple of 64 bytes, two neighbours begin 64 bytes apart modulo 128 already: four places for
// each pair of rows are enough, and chunk c of row r goes to c ^ (r / 2 % 4).
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
