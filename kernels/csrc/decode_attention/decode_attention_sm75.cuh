// decode_attention for sm_75: mma m16n8k8 on fp16. No cp.async: keys and values pass through registers to shared memory. Values
// are loaded while the scores are computed, the next keys during softmax and values.
//
// Warp w of a block processes tiles w, w + warps, ... of 16 keys. Each warp has its own shared memory for one tile, first keys
// and then values, so there is no __syncthreads() before the epilogue.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "decode_attention/decode_attention_cache.h"
#include "decode_attention/decode_attention_launch.cuh"
#include "decode_attention/decode_attention_tiles.h"
#include "decode_attention/decode_attention_warp.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

struct DecodeMmaTwice16x8x8 {
  using Element = __half;
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k8(c, a[0], a[1], b0);
    mma_m16n8k8(c, a[2], a[3], b1);
  }
};

// A lane's share of copying a tile from global memory. At head_dim 256 the registers hold only half a tile next to the output:
// the second half is loaded, and waited for, after the first is stored.
template <int HeadDim>
struct DecodeTileInFlight {
  static constexpr int kChunks = HeadDim / 8;  // per row
  static constexpr int kParts = HeadDim <= 128 ? 1 : 2;
  static constexpr int kRows = kDecodeKeys / kParts;
  static constexpr int kHeld = kRows * kChunks / 32;
  uint4 held[kHeld];

  // Loads the first part. Rows from live_rows on are filled with zeros.
  __device__ __forceinline__ void load(const __half* first_row, int64_t stride, int live_rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int row = (32 * i + lane) / kChunks;
      const int chunk = (32 * i + lane) % kChunks;
      held[i] = row < live_rows ? *reinterpret_cast<const uint4*>(first_row + row * stride + chunk * 8)
                                : make_uint4(0, 0, 0, 0);
    }
  }
  // Stores the whole tile whose first part was loaded.
  __device__ __forceinline__ void store(unsigned char* tile, const __half* first_row, int64_t stride, int live_rows) {
    store_part(tile);
#pragma unroll
    for (int part = 1; part < kParts; ++part) {
      load(first_row + part * kRows * stride, stride, live_rows - part * kRows);
      store_part(tile + part * kRows * kDecodeRowBytes<HeadDim>);  // the swizzle repeats, so rows of a part keep their place
    }
  }

 private:
  static_assert(kRows % 8 == 0, "the swizzle repeats after 8 rows");
  __device__ __forceinline__ void store_part(unsigned char* tile) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int row = (32 * i + lane) / kChunks;
      const int chunk = (32 * i + lane) % kChunks;
      *reinterpret_cast<uint4*>(tile + swizzled<kDecodeRowBytes<HeadDim>>(row, chunk)) = held[i];
    }
  }
};

template <int HeadDim, int RowTiles, typename Cache>
struct DecodeAttentionSm75 {
  static constexpr DecodeAttentionTile kTile = decode_attention_sm75_tile(HeadDim);
  static_assert(kTile.stages == 1, "what comes next waits in registers");
  static constexpr int kWarps = kTile.warps;
  static constexpr int kRows = 16 * RowTiles;
  static constexpr int kTileBytes = kDecodeTileBytes<HeadDim>;
  using Queries = std::conditional_t<decode_attention_sm75_queries_in_registers(HeadDim, RowTiles),
                                     DecodeQueriesInRegisters<__half, HeadDim, RowTiles>,
                                     DecodeQueriesInShared<__half, HeadDim, RowTiles>>;
  using Space = MergeSpace<kWarps, kRows, kMergeColumns<HeadDim, RowTiles>>;
  static constexpr int kTilesBytes = kWarps * kTileBytes;  // followed by the queries
  static constexpr int kSharedBytes = std::max<int>(kTilesBytes + Queries::kSharedBytes, sizeof(Space));
  using Shape = LaunchShape<32 * kWarps, kSharedBytes>;
  static constexpr float scale_log2(const DecodeAttentionParams& p) { return p.scale * kLog2E; }
  using Head = typename HeadOf<Cache, __half>::Type;

  static __device__ __forceinline__ void run(const DecodeAttentionParams& p, const Cache& cache) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int warp = threadIdx.x / 32;
    unsigned char* const tile = shared + warp * kTileBytes;
    const DecodeAttentionWork work = decode_attention_work_of_block<kRows>(p, blockIdx.x);
    int batch = work.batch, head_kv = work.head_kv;
    Head head(cache, batch, head_kv);

    constexpr int kStride = kWarps * kDecodeKeys;  // between consecutive tiles of a warp
    int key = work.first_key + warp * kDecodeKeys;
    DecodeTileInFlight<HeadDim> in_flight;
    if (key < work.end_key) in_flight.load(head.key_row(head.page_of(key), key), head.key_stride, work.end_key - key);
    DecodeWarp<DecodeMmaTwice16x8x8, HeadDim, RowTiles, Queries> state;
    state.queries.take(shared + kTilesBytes, p, work);
    uint32_t lane_keys = shared_address(tile) + lane_in_key_tile<HeadDim>();
    uint32_t lane_values = shared_address(tile) + lane_in_value_tile<HeadDim>();
    for (; key < work.end_key; key += kStride) {
      if constexpr (HeadDim == 256) {  // no registers left to keep the head's base pointers
        asm volatile("" : "+r"(batch), "+r"(head_kv));
        head = Head(cache, batch, head_kv);
      }
      __syncwarp();  // all lanes have read the previous tile's values
      const int page = head.page_of(key);
      in_flight.store(tile, head.key_row(page, key), head.key_stride, work.end_key - key);
      const __half* const values = head.value_row(page, key);
      in_flight.load(values, head.value_stride, work.end_key - key);
      __syncwarp();  // this tile's keys are stored
      // Hides from the compiler that these are loop-invariant: it would keep all derived addresses in registers.
      asm volatile("" : "+r"(lane_keys), "+r"(lane_values));
      float scores[RowTiles][2][4];
      state.score(scores, lane_keys, key, p, work);
      __syncwarp();  // all lanes have read the keys
      in_flight.store(tile, values, head.value_stride, work.end_key - key);
      const int next = key + kStride;
      if (next < work.end_key) {
        in_flight.load(head.key_row(head.page_of(next), next), head.key_stride, work.end_key - next);
      }
      __syncwarp();  // this tile's values are stored
      float log2e = kLog2E;  // multiplied again for each tile: at head_dim 256 no register is left for the product
      if constexpr (HeadDim == 256) asm volatile("" : "+f"(log2e));
      state.add_values(scores, lane_values, RawScores{p.scale * log2e});
    }

    // Recomputed: the loop has no register to spare for it.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    state.template finish<kWarps>(shared, p, decode_attention_work_of_block<kRows>(p, block), RawScores{scale_log2(p)});
  }
};

}  // namespace warpwatch
