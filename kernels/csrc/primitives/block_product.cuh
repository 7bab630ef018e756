// Layout and work distribution of a thread block's matrix product, shared by the main loops of sm_75 and sm_80
// (block_product_sm75.cuh, block_product_sm80.cuh).
//
// The block computes kM x kN sums over k of a[m, k] * b[n, k]; k is contiguous in both. Shared memory holds slabs of 128 bytes
// of k: kM rows of a, then kN rows of b, each row swizzled. A warp owns kM / kWarpsM by kN / kWarpsN sums, as 16 x 8 tiles in
// an mma's C layout.
#pragma once

#include <cstdint>

#include "primitives/ldmatrix.cuh"
#include "primitives/swizzle.cuh"

namespace warpwatch {

constexpr int kSlabBytes = 128;  // of k: eight 16-byte chunks

// Rows start on 16-byte boundaries and k_bytes is a multiple of 16. Elements past the end of rows or k count as zero.
struct BlockOperand {
  const char* first;     // the block's first row
  int64_t stride_bytes;  // between rows
  int rows;              // existing rows, from the first on; may exceed the tile
  bool read_once = false;  // b only: evict_first on Hopper
};

template <typename MmaPolicy, int kRowsA, int kRowsB, int kWarpsAlongM, int kWarpsAlongN>
struct BlockShape {
  using Mma = MmaPolicy;
  using Sum = typename Mma::Sum;
  static constexpr int kM = kRowsA, kN = kRowsB;
  static constexpr int kThreads = 32 * kWarpsAlongM * kWarpsAlongN;
  static constexpr int kWarpM = kM / kWarpsAlongM, kWarpN = kN / kWarpsAlongN;
  static constexpr int kMTiles = kWarpM / 16, kNTiles = kWarpN / 8;
  static constexpr int kSlabRows = kM + kN;
  static constexpr int kStageBytes = kSlabRows * kSlabBytes;
  static constexpr int kRowsAtOnce = kThreads / 8;  // of a slab, with one chunk per thread
  static constexpr int kCopies = kSlabRows / kRowsAtOnce;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "ldmatrix_x4 loads 16 rows of a, and 16 of b");

  Sum sums[kMTiles][kNTiles][4] = {};

  // Address of chunk threadIdx.x % 8 of the slab's row threadIdx.x / 8 + copy * kRowsAtOnce, and whether it exists.
  static __device__ __forceinline__ const char* chunk(const BlockOperand& a, const BlockOperand& b, int64_t k_bytes,
                                                      int slab, int copy, bool& live) {
    static_assert(kM % kRowsAtOnce == 0 && kN % kRowsAtOnce == 0, "so that a copy is of one operand for all threads");
    const bool of_a = copy * kRowsAtOnce < kM;  // a compile-time constant once the loop over copies is unrolled
    const BlockOperand& operand = of_a ? a : b;
    const int row = threadIdx.x / 8 + copy * kRowsAtOnce - (of_a ? 0 : kM);
    const int64_t k = static_cast<int64_t>(slab) * kSlabBytes + threadIdx.x % 8 * 16;
    live = row < operand.rows && k < k_bytes;
    return operand.first + row * operand.stride_bytes + k;
  }

  static __device__ __forceinline__ uint32_t chunk_offset(int copy) {
    return swizzled<kSlabBytes>(threadIdx.x / 8 + copy * kRowsAtOnce, threadIdx.x % 8);
  }

  // sums += the product of one slab, whose stage starts at this shared address.
  __device__ __forceinline__ void multiply(uint32_t stage) {
    const int lane = threadIdx.x % 32;
    const int a_row = warp_m() + lane % 16;                         // 8 x 8 matrices: upper, lower rows; then k + 16 bytes
    const int b_row = kM + warp_n() + lane % 8 + 8 * (lane / 16);   // k, k + 16 bytes; then the next 8 rows
#pragma unroll
    for (int step = 0; step < kSlabBytes / 32; ++step) {
      uint32_t a[kMTiles][4], b[kNTiles / 2][4];
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        ldmatrix_x4(a[i], stage + swizzled<kSlabBytes>(a_row + 16 * i, 2 * step + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < kNTiles / 2; ++j) {
        ldmatrix_x4(b[j], stage + swizzled<kSlabBytes>(b_row + 16 * j, 2 * step + lane / 8 % 2));
      }
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
        for (int j = 0; j < kNTiles; ++j) {
          Mma::run(sums[i][j], a[i], b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]);
        }
      }
    }
  }

  // Visits the thread's sums, two neighbours in n at a time: visit(m, n, sum at (m, n), sum at (m, n + 1)) may modify them; m
  // and n are relative to the block's tile, n is even.
  template <typename Visit>
  __device__ __forceinline__ void each_pair(const Visit& visit) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
#pragma unroll
        for (int j = 0; j < kNTiles; ++j) {
          visit(warp_m() + 16 * i + 8 * upper + lane / 4, warp_n() + 8 * j + 2 * (lane % 4), sums[i][j][2 * upper],
                sums[i][j][2 * upper + 1]);
        }
      }
    }
  }

  static __device__ __forceinline__ int warp_m() { return threadIdx.x / 32 / kWarpsAlongN * kWarpM; }
  static __device__ __forceinline__ int warp_n() { return threadIdx.x / 32 % kWarpsAlongN * kWarpN; }
};

// Tile of a block under grouped rasterisation: within a group of 16 tiles along m, m varies fastest, so that the hundred or so
// blocks of one wave read 16 tiles of a and a few of b, from L2.
struct TileCoord {
  int m, n;  // in tiles

  static __device__ __forceinline__ TileCoord of(int block, int tiles_m, int tiles_n) {
    constexpr int kGroup = 16;
    const int64_t whole = static_cast<int64_t>(kGroup) * tiles_n;
    const int group = static_cast<int>(block / whole), within = static_cast<int>(block % whole);
    const int rows = min(tiles_m - group * kGroup, kGroup);
    return {group * kGroup + within % rows, within / rows};
  }
};

}  // namespace warpwatch
