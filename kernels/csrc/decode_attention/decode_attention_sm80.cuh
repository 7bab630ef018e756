// decode_attention for sm_80 and newer: mma m16n8k16 on fp16 or bf16, keys and values by cp.async.
//
// Warp w of a block takes tiles w, w + warps, ... of 16 keys. Each has a ring of `stages` tiles of keys and of values in
// shared memory and waits for its own copies alone: no __syncthreads() before the end.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "decode_attention/decode_attention_cache.h"
#include "decode_attention/decode_attention_launch.cuh"
#include "decode_attention/decode_attention_tiles.h"
#include "decode_attention/decode_attention_warp.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

template <typename T>
struct DecodeMma16x8x16 {
  using Element = T;
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16<Element>(c, a, b0, b1);
  }
};

// A cache streams by with an L2 evict_first hint, so that it does not evict, and have written back, what kernels before this one
// wrote. On Hopper not where it is larger than this, many times the L2. One H200, behind an L2 flush,
// with the hint / without, us: 134 MB 43.8 / 46.7, 268 MB 74.5 / 75.3, 537 MB 142.0 / 136.3.
constexpr int64_t kDecodeAttentionLongCacheBytes = int64_t{400} << 20;

template <typename Element, int HeadDim, int RowTiles, typename Cache>
struct DecodeAttentionSm80 {
  static constexpr DecodeAttentionTile kTile = decode_attention_sm80_tile(HeadDim, RowTiles);
  static constexpr int kWarps = kTile.warps;
  static constexpr int kStages = kTile.stages;
  static constexpr int kRows = 16 * RowTiles;
  static constexpr int kTileBytes = kDecodeTileBytes<HeadDim>;
  static constexpr int kRingBytes = kWarps * kStages * 2 * kTileBytes;
  using Space = MergeSpace<kWarps, kRows, kMergeColumns<HeadDim, RowTiles>>;
  using Queries = std::conditional_t<decode_attention_sm80_queries_in_registers(HeadDim, RowTiles),
                                     DecodeQueriesInRegisters<Element, HeadDim, RowTiles>,
                                     DecodeQueriesInShared<Element, HeadDim, RowTiles>>;
  static constexpr int kSharedBytes = std::max<int>(kRingBytes + Queries::kSharedBytes, sizeof(Space));
  using Shape = LaunchShape<32 * kWarps, kSharedBytes>;
  static constexpr float scale_log2(const DecodeAttentionParams& p) { return p.scale * kLog2E; }
  using Head = typename HeadOf<Cache, Element>::Type;

  // The cache is taken for `batch` times this sequence's.
  static __device__ __forceinline__ uint64_t policy_of_cache(const DecodeAttentionParams& p,
                                                             const DecodeAttentionWork& work) {
#if __CUDA_ARCH__ == 900
    const int64_t key_bytes = int64_t{2 * HeadDim * sizeof(Element)} * p.batch * p.heads_kv;
    if (work.length * key_bytes >= kDecodeAttentionLongCacheBytes) return evict_unchanged_policy();
#endif
    return evict_first_policy();
  }

  // One warp copies 16 rows; those from live_rows on become zeros.
  static __device__ __forceinline__ void copy(uint32_t tile, const Element* first_row, int64_t stride, int live_rows,
                                              uint64_t policy) {
    constexpr int kChunks = HeadDim / 8;  // of a row
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kDecodeKeys * kChunks / 32; ++i) {
      const int row = (32 * i + lane) / kChunks;
      const int chunk = (32 * i + lane) % kChunks;
      cp_async_16(tile + swizzled<kDecodeRowBytes<HeadDim>>(row, chunk), first_row + row * stride + chunk * 8,
                  row < live_rows, policy);
    }
  }

  static __device__ __forceinline__ void run(const DecodeAttentionParams& p, const Cache& cache) {
    extern __shared__ __align__(1024) unsigned char shared[];
    launch_dependents();  // the parts' combination, which waits for this one's end
    const int warp = threadIdx.x / 32;
    const uint32_t ring = shared_address(shared) + warp * kStages * 2 * kTileBytes;
    const DecodeAttentionWork work = decode_attention_work_of_block<kRows>(p, blockIdx.x);
    const Head head(cache, work.batch, work.head_kv);
    const uint64_t policy = policy_of_cache(p, work);
    const RawScores exponents{scale_log2(p)};

    constexpr int kStride = kWarps * kDecodeKeys;  // from one of the warp's tiles to its next
    int key = work.first_key + warp * kDecodeKeys;   // of the tile that is computed
    int page = key < work.end_key ? head.page_of(key) : 0;  // of the tile to be copied next
    const auto copy_next = [&](int coming, int stage) {
      if (coming < work.end_key) {
        const uint32_t tile = ring + stage * 2 * kTileBytes;
        copy(tile, head.key_row(page, coming), head.key_stride, work.end_key - coming, policy);
        copy(tile + kTileBytes, head.value_row(page, coming), head.value_stride, work.end_key - coming, policy);
      }
      cp_async_commit();  // also when empty, so that the number of groups tells which tile has landed
      if (coming + kStride < work.end_key) page = head.page_of(coming + kStride);  // long before it is needed
    };
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) copy_next(key + stage * kStride, stage);

    DecodeWarp<DecodeMma16x8x16<Element>, HeadDim, RowTiles, Queries> state;
    state.queries.take(shared + kRingBytes, p, work);
    uint32_t lane_keys = lane_in_key_tile<HeadDim>();
    uint32_t lane_values = lane_in_value_tile<HeadDim>();
    int stage = 0;
    for (; key < work.end_key; key += kStride) {
      cp_async_wait<kStages - 2>();
      __syncwarp();  // the tile has landed for all lanes, and all have left the one that is written over next
      copy_next(key + (kStages - 1) * kStride, stage == 0 ? kStages - 1 : stage - 1);
      // The compiler shall not see that these stay: it would keep the addresses derived from them in registers.
      asm volatile("" : "+r"(lane_keys), "+r"(lane_values));
      const uint32_t tile = ring + stage * 2 * kTileBytes;
      float scores[RowTiles][2][4];
      state.score(scores, tile + lane_keys, key, p, work);
      state.add_values(scores, tile + kTileBytes + lane_values, exponents);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    cp_async_wait<0>();

    // Worked out again rather than kept in registers through the loop, which has none to spare.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    state.template finish<kWarps>(shared, p, decode_attention_work_of_block<kRows>(p, block), exponents);
  }
};

}  // namespace warpwatch
