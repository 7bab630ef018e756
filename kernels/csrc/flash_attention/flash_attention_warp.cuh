// One warp's attention on mma: scores, weighted values and the epilogue; shared by sm_75 and sm_80.
//
// Tiles in shared memory are (rows, HeadDim) of 16-bit elements, rows of 2 * HeadDim bytes, with 16-byte chunks swizzled
// (primitives/swizzle.cuh), and start on a multiple of their row size. Chunk c of row r lies at
//   tile + r * row_bytes + ((c ^ (r % 8)) << 4).
// ldmatrix.x4 reads 16 rows x 2 chunks: lane l passes the address of row lane_row(l) and chunk 2 i + b(l), with b in {0, 1}.
// As 2 i + b = 2 i ^ b, and as the rows of step n begin at 16 n, that address is
//   ((tile + lane_row * row_bytes + ((b ^ (lane_row % 8)) << 4)) ^ (i << 5)) + 16 n * row_bytes,
// one xor away from a value that each lane computes once. Rows of 192 bytes are swizzled within 64 bytes: there 2 i contributes
// 2 (i % 2) to the xor and 4 (i / 2) to the sum.
#pragma once

#include <cstdint>

#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/swizzle.cuh"

namespace warpwatch {

// The lane's ldmatrix address for step i along head_dim, from that for step 0.
template <int HeadDim>
__device__ __forceinline__ uint32_t at_step(uint32_t lane_address, int i) {
  if constexpr (HeadDim % 64 == 0) return lane_address ^ (i << 5);
  return (lane_address ^ ((i & 1) << 5)) + (i >> 1 << 6);
}

// Distribution of whole rows over threads that move 16 bytes each: kAcross threads across a row, each taking every kAcross-th
// chunk. A thread's chunks then lie 16 * kAcross bytes apart, swizzled or not.
template <int HeadDim>
struct RowShare {
  static constexpr int kChunks = HeadDim / 8;
  static constexpr int kAcross = HeadDim % 64 != 0 ? 4 : kChunks < 16 ? kChunks : 16;
  static constexpr int kEach = kChunks / kAcross;
  static_assert(kAcross * kEach == kChunks, "every thread takes the same number of chunks");
};

// Lane address for queries (A operand) and for values (B operand, ldmatrix.trans): matrices 0..3 are rows 0-7 and 8-15 of the
// first chunk, then of the second.
template <int HeadDim>
__device__ __forceinline__ uint32_t lane_address_rows_first(uint32_t tile) {
  const int lane = threadIdx.x % 32;
  return tile + swizzled<2 * HeadDim>(lane % 16, lane / 16);
}

// Lane address for keys (B operand): matrices 0..3 are chunks 0 and 1 of rows 0-7, then of rows 8-15.
template <int HeadDim>
__device__ __forceinline__ uint32_t lane_address_chunks_first(uint32_t tile) {
  const int lane = threadIdx.x % 32;
  return tile + swizzled<2 * HeadDim>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

// A fragments of a warp's queries, reloaded from shared memory at each use.
template <int RowTiles, int HeadDim>
struct QueriesInShared {
  // Unroll of the loop over head_dim: unrolling all 8 steps of head_dim 128 hoists so many loads on sm_90a that it spills.
  static constexpr int kUnrolledSteps = 4;
  uint32_t lane_address;

  // `tile`: the warp's first row.
  __device__ __forceinline__ void take(uint32_t tile) { lane_address = lane_address_rows_first<HeadDim>(tile); }
  __device__ __forceinline__ void fragments(uint32_t (&a)[RowTiles][4], int i) const {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) ldmatrix_x4(a[r], at_step<HeadDim>(lane_address, i) + r * 16 * 2 * HeadDim);
  }
};

// A fragments of a warp's queries, held in registers.
template <int RowTiles, int HeadDim>
struct QueriesInRegisters {
  static constexpr int kUnrolledSteps = HeadDim / 16;  // registers need compile-time indices
  uint32_t held[HeadDim / 16][RowTiles][4];

  __device__ __forceinline__ void take(uint32_t tile) {
    QueriesInShared<RowTiles, HeadDim> shared;
    shared.take(tile);
#pragma unroll
    for (int i = 0; i < HeadDim / 16; ++i) shared.fragments(held[i], i);
  }
  __device__ __forceinline__ void fragments(uint32_t (&a)[RowTiles][4], int i) const {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) a[r][e] = held[i][r][e];
    }
  }
};

template <bool InRegisters, int RowTiles, int HeadDim>
struct QueriesChoice {
  using Type = QueriesInShared<RowTiles, HeadDim>;
};
template <int RowTiles, int HeadDim>
struct QueriesChoice<true, RowTiles, HeadDim> {
  using Type = QueriesInRegisters<RowTiles, HeadDim>;
};

// scores = q k^T. `keys`: lane_address_chunks_first of the key tile. Mma::run is c += a b on 16 x 8 x 16.
template <typename Mma, int HeadDim, typename Queries, int RowTiles, int KeyTiles>
__device__ __forceinline__ void multiply_keys(float (&scores)[RowTiles][KeyTiles][4], const Queries& queries,
                                              uint32_t keys) {
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < KeyTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) scores[r][n][c] = 0.0f;
    }
  }
#pragma unroll(Queries::kUnrolledSteps)
  for (int i = 0; i < HeadDim / 16; ++i) {
    uint32_t a[RowTiles][4];
    queries.fragments(a, i);
#pragma unroll
    for (int n = 0; n < KeyTiles / 2; ++n) {
      uint32_t b[4];
      ldmatrix_x4(b, at_step<HeadDim>(keys, i) + n * 16 * 2 * HeadDim);
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
        Mma::run(scores[r][2 * n], a[r], b[0], b[1]);
        Mma::run(scores[r][2 * n + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// out += weights v. The packed weights of two neighbouring key tiles form an A fragment of 16 keys. `values`:
// lane_address_rows_first of the value tile.
template <typename Mma, int HeadDim, int RowTiles, int KeyTiles>
__device__ __forceinline__ void multiply_values(float (&out)[RowTiles][HeadDim / 8][4],
                                                const float (&weights)[RowTiles][KeyTiles][4], uint32_t values) {
  using Element = typename Mma::Element;
#pragma unroll
  for (int n = 0; n < KeyTiles / 2; ++n) {
    uint32_t a[RowTiles][4];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      const float(&low)[4] = weights[r][2 * n];
      const float(&high)[4] = weights[r][2 * n + 1];
      a[r][0] = pack<Element>(low[0], low[1]);
      a[r][1] = pack<Element>(low[2], low[3]);
      a[r][2] = pack<Element>(high[0], high[1]);
      a[r][3] = pack<Element>(high[2], high[3]);
    }
#pragma unroll
    for (int i = 0; i < HeadDim / 16; ++i) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, at_step<HeadDim>(values, i) + n * 16 * 2 * HeadDim);
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
        Mma::run(out[r][2 * i], a[r], b[0], b[1]);
        Mma::run(out[r][2 * i + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// Epilogue: normalizes the warp's rows and stores live_rows of them. They are staged through the warp's own 16 * RowTiles rows
// of shared memory at `tile`: lanes write 4-byte fragments there and read 16 contiguous bytes, for coalesced stores.
template <typename Element, int HeadDim, int RowTiles, typename Softmax>
__device__ __forceinline__ void store_out(const float (&out)[RowTiles][HeadDim / 8][4], const Softmax& softmax,
                                          unsigned char* tile, Element* global, int64_t row_stride, int live_rows,
                                          int live_columns = HeadDim) {
  constexpr int kChunks = HeadDim / 8;  // per row
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float normalizer = softmax.normalizer(r, half);
      const int row = 16 * r + lane / 4 + 8 * half;
#pragma unroll
      for (int n = 0; n < kChunks; ++n) {
        // Tile n of 8 columns is chunk n. The 8 rows of a store hit 8 different chunks, so all banks.
        *reinterpret_cast<uint32_t*>(tile + swizzled<2 * HeadDim>(row, n) + 4 * (lane % 4)) =
            pack<Element>(out[r][n][2 * half] * normalizer, out[r][n][2 * half + 1] * normalizer);
      }
    }
  }
  __syncwarp();
  using Share = RowShare<HeadDim>;
  constexpr int kRowsAtOnce = 32 / Share::kAcross;
#pragma unroll
  for (int i = 0; i < 16 * RowTiles / kRowsAtOnce; ++i) {
    const int row = i * kRowsAtOnce + lane / Share::kAcross;
    if (row >= live_rows) continue;
#pragma unroll
    for (int m = 0; m < Share::kEach; ++m) {
      const int chunk = lane % Share::kAcross + m * Share::kAcross;
      if (8 * chunk >= live_columns) continue;
      *reinterpret_cast<uint4*>(global + row * row_stride + chunk * 8) =
          *reinterpret_cast<const uint4*>(tile + swizzled<2 * HeadDim>(row, chunk));
    }
  }
}

// Stores the log-sum-exp of the warp's rows, live_rows of them, to `global`: one lane per quad stores its row's.
template <int RowTiles, typename Softmax, typename Exponents>
__device__ __forceinline__ void store_log_sum_exp(const Softmax& softmax, float scale, const Exponents& exponents,
                                                  double* global, int live_rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const double lse = softmax.log_sum_exp(r, half, scale, exponents);
      const int row = 16 * r + lane / 4 + 8 * half;
      if (lane % 4 == 0 && row < live_rows) global[row] = lse;
    }
  }
}

}  // namespace warpwatch
