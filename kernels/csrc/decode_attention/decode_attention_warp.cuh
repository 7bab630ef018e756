// One warp's attention on mma over 16 keys and values in shared memory; shared by sm_75 and sm_80.
//
// A tile in shared memory is 16 rows of kRowBytes with 16-byte chunks swizzled (primitives/swizzle.cuh), and starts on a
// multiple of kRowBytes, a power of two. The address of the i-th pair of chunks is then one xor away from that of the first
// (derivation in flash_attention_warp.cuh). head_dim 96 leaves a quarter of each row unused to keep the power of two.
#pragma once

#include <cstdint>

#include "decode_attention/decode_attention_merge.cuh"
#include "decode_attention/decode_attention_launch.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/swizzle.cuh"

namespace warpwatch {

constexpr int kDecodeKeys = 16;  // per tile

template <int HeadDim>
constexpr int kDecodeRowBytes = HeadDim <= 64 ? 128 : HeadDim <= 128 ? 256 : 512;

template <int HeadDim>
constexpr int kDecodeTileBytes = kDecodeKeys * kDecodeRowBytes<HeadDim>;

// The lane's address within a tile for the ldmatrix.x4 that reads two chunks of 16 rows. Keys: matrices 0..3 are chunks 0 and 1
// of rows 0-7, then of rows 8-15. Values: rows 0-7 and 8-15 of chunk 0, then of chunk 1.
template <int HeadDim>
__device__ __forceinline__ uint32_t lane_in_key_tile() {
  const int lane = threadIdx.x % 32;
  return swizzled<kDecodeRowBytes<HeadDim>>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}
template <int HeadDim>
__device__ __forceinline__ uint32_t lane_in_value_tile() {
  const int lane = threadIdx.x % 32;
  return swizzled<kDecodeRowBytes<HeadDim>>(lane % 16, lane / 16);
}

// Loads the A fragment of packed queries 16 r .. 16 r + 15, columns 16 i .. 16 i + 15, directly from global memory; rows past
// the block's last are zeros.
template <typename Element>
__device__ __forceinline__ void load_query_fragment(uint32_t (&a)[4], const DecodeAttentionParams& p,
                                                    const DecodeAttentionWork& work, int r, int i) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = 16 * r + lane / 4 + 8 * half;
    const bool live = row < work.rows;
    const Element* from = query_row<Element>(p, work, live ? row : 0) + 16 * i + 2 * (lane % 4);
    a[half] = live ? *reinterpret_cast<const uint32_t*>(from) : 0;
    a[half + 2] = live ? *reinterpret_cast<const uint32_t*>(from + 8) : 0;
  }
}

// The block's queries in registers: each warp holds all of them.
template <typename Element, int HeadDim, int RowTiles>
struct DecodeQueriesInRegisters {
  static constexpr int kSharedBytes = 0;
  uint32_t held[HeadDim / 16][RowTiles][4];

  __device__ __forceinline__ void take(unsigned char*, const DecodeAttentionParams& p, const DecodeAttentionWork& work) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < HeadDim / 16; ++i) load_query_fragment<Element>(held[i][r], p, work, r, i);
    }
  }
  __device__ __forceinline__ void fragment(uint32_t (&a)[4], int i, int r) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) a[e] = held[i][r][e];
  }
};

// The block's queries in shared memory, once per block, if registers do not suffice.
// Each lane's 16-byte fragment is contiguous.
template <typename Element, int HeadDim, int RowTiles>
struct DecodeQueriesInShared {
  static constexpr int kFragments = HeadDim / 16 * RowTiles;
  static constexpr int kSharedBytes = kFragments * 512;
  const uint4* held;

  // All threads of the block must call it.
  __device__ __forceinline__ void take(unsigned char* shared, const DecodeAttentionParams& p,
                                       const DecodeAttentionWork& work) {
    uint4* space = reinterpret_cast<uint4*>(shared) + threadIdx.x % 32;
    held = space;
    for (int f = threadIdx.x / 32; f < kFragments; f += blockDim.x / 32) {
      uint32_t a[4];
      load_query_fragment<Element>(a, p, work, f % RowTiles, f / RowTiles);
      space[32 * f] = make_uint4(a[0], a[1], a[2], a[3]);
    }
    __syncthreads();
  }
  __device__ __forceinline__ void fragment(uint32_t (&a)[4], int i, int r) const {
    const uint4 x = held[32 * (i * RowTiles + r)];
    a[0] = x.x;
    a[1] = x.y;
    a[2] = x.z;
    a[3] = x.w;
  }
};

// Mma::run is c += a b on 16 x 8 x 16, with Mma::Element; Queries is one of the two structs above.
template <typename Mma, int HeadDim, int RowTiles, typename Queries>
struct DecodeWarp {
  using Element = typename Mma::Element;
  static constexpr int kSteps = HeadDim / 16;

  Queries queries;
  float out[RowTiles][HeadDim / 8][4] = {};
  OnlineSoftmax<RowTiles> softmax;

  // scores = q k^T, masked scores set to -inf. `keys`: the tile's address plus lane_in_key_tile.
  __device__ __forceinline__ void score(float (&scores)[RowTiles][2][4], uint32_t keys, int first_key,
                                        const DecodeAttentionParams& p, const DecodeAttentionWork& work) const {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) scores[r][0][c] = scores[r][1][c] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      uint32_t b[4];
      ldmatrix_x4(b, keys ^ (i << 5));
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
        uint32_t a[4];
        queries.fragment(a, i, r);
        Mma::run(scores[r][0], a, b[0], b[1]);
        Mma::run(scores[r][1], a, b[2], b[3]);
      }
    }
    if (first_key + kDecodeKeys <= work.length - p.seq_q + 1) return;  // all rows see all 16 keys, as in most tiles
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Relative to this lane's first key.
        const int seen = keys_seen_by_row(p, work, 16 * r + lane / 4 + 8 * half) - first_key - 2 * (lane % 4);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          if (8 * n >= seen) scores[r][n][2 * half] = -INFINITY;
          if (8 * n + 1 >= seen) scores[r][n][2 * half + 1] = -INFINITY;
        }
      }
    }
  }

  // Adds the weighted values. `values`: the tile's address plus lane_in_value_tile.
  __device__ __forceinline__ void add_values(float (&scores)[RowTiles][2][4], uint32_t values, const RawScores& exponents) {
    softmax.step(scores, out, exponents);
    uint32_t a[RowTiles][4];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        a[r][2 * n] = pack<Element>(scores[r][n][0], scores[r][n][1]);
        a[r][2 * n + 1] = pack<Element>(scores[r][n][2], scores[r][n][3]);
      }
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, values ^ (i << 5));
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
        Mma::run(out[r][2 * i], a[r], b[0], b[1]);
        Mma::run(out[r][2 * i + 1], a[r], b[2], b[3]);
      }
    }
  }

  // Merges the block's warps and stores. All threads of the block must call it, once no tile is needed any more.
  template <int Warps>
  __device__ __forceinline__ void finish(unsigned char* shared, const DecodeAttentionParams& p,
                                         const DecodeAttentionWork& work, const RawScores& exponents) const {
    constexpr int kColumns = kMergeColumns<HeadDim, RowTiles>;
    auto& space = *reinterpret_cast<MergeSpace<Warps, 16 * RowTiles, kColumns>*>(shared);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int first = 0; first < HeadDim; first += kColumns) {
      __syncthreads();  // all warps are done with their tiles, or with the previous columns
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = 16 * r + lane / 4 + 8 * half;
          if (first == 0) {
            const float sum = quad_sum(softmax.row_sum[r][half]);
            if (lane % 4 == 0) {
              space.row_max[warp][row] = softmax.row_max[r][half];
              space.row_sum[warp][row] = sum;
            }
          }
#pragma unroll
          for (int n = 0; n < kColumns / 8; ++n) {
            const float(&tile)[4] = out[r][first / 8 + n];
            *reinterpret_cast<float2*>(&space.out[warp][row][8 * n + 2 * (lane % 4)]) =
                make_float2(tile[2 * half], tile[2 * half + 1]);
          }
        }
      }
      __syncthreads();
      merge_columns<Element, HeadDim>(space, p, work, exponents, first);
    }
  }
};

}  // namespace warpwatch
