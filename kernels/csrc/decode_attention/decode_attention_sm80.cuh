// decode_attention for sm_80 and newer: mma m16n8k16 on fp16 or bf16, keys and values by cp.async.
//
// Warp w of a block processes tiles w, w + warps, ... of 16 keys. Each warp has its own ring of `stages` tiles of keys and of
// values in shared memory and waits for its own copies only, so there is no __syncthreads() before the epilogue.
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

// A cache is streamed with an L2 evict_first hint, so that it does not evict (and force the write-back of) what earlier kernels
// wrote. On Hopper, a cache larger than this, many times the L2, is read without the hint. Evidence, one H200, cold L2, us:
//   cache      134 MB   268 MB   537 MB
//   hint        43.8     74.5    142.0
//   no hint     46.7     75.3    136.3
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

  // Estimates the cache's size as `batch` times this sequence's.
  static __device__ __forceinline__ uint64_t policy_of_cache(const DecodeAttentionParams& p,
                                                             const DecodeAttentionWork& work) {
#if __CUDA_ARCH__ == 900
    const int64_t key_bytes = int64_t{2 * HeadDim * sizeof(Element)} * p.batch * p.heads_kv;
    if (work.length * key_bytes >= kDecodeAttentionLongCacheBytes) return evict_unchanged_policy();
#endif
    return evict_first_policy();
  }

  // One warp copies 16 rows; rows from live_rows on are filled with zeros.
  static __device__ __forceinline__ void copy(uint32_t tile, const Element* first_row, int64_t stride, int live_rows,
                                              uint64_t policy) {
    constexpr int kChunks = HeadDim / 8;  // per row
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
    launch_dependents();  // the combine kernel, which waits for the end of this one
    const int warp = threadIdx.x / 32;
    const uint32_t ring = shared_address(shared) + warp * kStages * 2 * kTileBytes;
    const DecodeAttentionWork work = decode_attention_work_of_block<kRows>(p, blockIdx.x);
    const Head head(cache, work.batch, work.head_kv);
    const uint64_t policy = policy_of_cache(p, work);
    const RawScores exponents{scale_log2(p)};

    constexpr int kStride = kWarps * kDecodeKeys;  // between consecutive tiles of a warp
    int key = work.first_key + warp * kDecodeKeys;   // of the tile being computed
    int page = key < work.end_key ? head.page_of(key) : 0;  // of the next tile to copy
    const auto copy_next = [&](int coming, int stage) {
      if (coming < work.end_key) {
        const uint32_t tile = ring + stage * 2 * kTileBytes;
        copy(tile, head.key_row(page, coming), head.key_stride, work.end_key - coming, policy);
        copy(tile + kTileBytes, head.value_row(page, coming), head.value_stride, work.end_key - coming, policy);
      }
      cp_async_commit();  // committed even if empty, so that the group count tells which tile has landed
      if (coming + kStride < work.end_key) page = head.page_of(coming + kStride);  // issued early: it may read memory
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
      __syncwarp();  // the tile has landed for all lanes, and all have read the stage that is overwritten next
      copy_next(key + (kStages - 1) * kStride, stage == 0 ? kStages - 1 : stage - 1);
      // Hides from the compiler that these are loop-invariant: it would keep all derived addresses in registers.
      asm volatile("" : "+r"(lane_keys), "+r"(lane_values));
      const uint32_t tile = ring + stage * 2 * kTileBytes;
      float scores[RowTiles][2][4];
      state.score(scores, tile + lane_keys, key, p, work);
      state.add_values(scores, tile + kTileBytes + lane_values, exponents);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    cp_async_wait<0>();

    // Recomputed: the loop has no register to spare for it.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    state.template finish<kWarps>(shared, p, decode_attention_work_of_block<kRows>(p, block), exponents);
  }
};

}  // namespace warpwatch
